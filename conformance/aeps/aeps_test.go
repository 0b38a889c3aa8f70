package aeps

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryFileIsListedOnce so that none goes unchecked.
func TestEveryFileIsListedOnce(t *testing.T) {
	files, err := fs.Glob(FS, "*.yaml")
	require.NoError(t, err)
	var listed []string
	for _, m := range Manifests {
		listed = append(listed, m.File)
		require.NotEmpty(t, m.Note, m.File)
	}
	require.Equal(t, files, listed)
}
