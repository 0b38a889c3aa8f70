package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyOfflineCommandsWriteFiles: what runs in a cluster writes none, keys least of all, and can have a read-only root file system.
func TestOnlyOfflineCommandsWriteFiles(t *testing.T) {
	offline := []string{"cmd/celvpa/crd.go", "cmd/celvpa/test.go"} // each to the place that a flag names
	writes := regexp.MustCompile(`\b(os|root)\.(Create|CreateTemp|WriteFile|Mkdir|MkdirAll|MkdirTemp|Rename|Link|Symlink|Chmod|CopyFS)\(|\b(os|syscall)\.O_(WRONLY|RDWR|CREATE|CREAT|APPEND)\b`)
	root := filepath.Join("..", "..")
	var found []string
	for _, folder := range []string{"cmd", "controllers", "crds", "engine", "rules", "simulate", "webhook"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil && writes.Match(text) {
				path, err = filepath.Rel(root, path)
				found = append(found, filepath.ToSlash(path))
			}
			return err
		}))
	}
	slices.Sort(found)
	require.Equal(t, offline, found)
}
