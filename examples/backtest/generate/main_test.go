package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheUsageThatShipsIsWhatThisPrints: see the package comment for the commands that write it.
func TestTheUsageThatShipsIsWhatThisPrints(t *testing.T) {
	for path, list := range map[string][]container{"../usage.csv.gz": containers, "../../demo/usage.csv.gz": demo} {
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		unpacked, err := gzip.NewReader(file)
		require.NoError(t, err)
		shipped, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		var printed bytes.Buffer
		write(&printed, list)
		require.Equal(t, printed.Len(), len(shipped))
		require.True(t, bytes.Equal(printed.Bytes(), shipped), path)
	}
}
