package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheUsageThatShipsIsWhatThisPrints: see the package comment for the command that writes it.
func TestTheUsageThatShipsIsWhatThisPrints(t *testing.T) {
	file, err := os.Open("../usage.csv.gz")
	require.NoError(t, err)
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	require.NoError(t, err)
	shipped, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	var printed bytes.Buffer
	write(&printed)
	require.Equal(t, printed.Len(), len(shipped))
	require.True(t, bytes.Equal(printed.Bytes(), shipped))
}
