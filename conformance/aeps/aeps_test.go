package aeps

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// TestEveryLineOfATestPlanHasATest that exists.
func TestEveryLineOfATestPlanHasATest(t *testing.T) {
	functions := map[string]map[string]bool{}
	for _, folder := range []string{"integration", "node"} {
		functions[folder] = map[string]bool{"": true}
		files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, match := range regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)\(t \*testing\.T\b`).FindAllStringSubmatch(string(text), -1) {
				functions[folder][match[1]] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, l := range Lines {
		require.NotEmpty(t, l.Lab+l.Node, "AEP-%d: %s", l.AEP, l.Line)
		require.True(t, functions["integration"][l.Lab], "conformance/integration has no %s", l.Lab)
		require.True(t, functions["node"][l.Node], "conformance/node has no %s", l.Node)
		seen[l.Line] = true
	}
	require.Len(t, seen, len(Lines), "a line is listed twice")
	for _, m := range Manifests {
		require.True(t, slices.ContainsFunc(Lines, func(l Line) bool { return l.AEP == m.AEP }), "no line is of AEP-%d", m.AEP)
	}
}
