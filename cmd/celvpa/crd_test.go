package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheManifestsAreWhatTheCommandWrites: people apply those that are committed.
func TestTheManifestsAreWhatTheCommandWrites(t *testing.T) {
	scratch := t.TempDir()
	cmd := crdCommand(compileOnce)
	cmd.SetArgs([]string{"--out", scratch})
	require.NoError(t, cmd.Execute())
	const committed = "../../crds/manifests"
	written, err := os.ReadDir(scratch)
	require.NoError(t, err)
	there, err := os.ReadDir(committed)
	require.NoError(t, err)
	require.Len(t, there, len(written))
	for _, file := range written {
		want, err := os.ReadFile(filepath.Join(scratch, file.Name()))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(committed, file.Name()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s is not what make generate makes", file.Name())
	}
}
