package engine_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms are the engine's packages, in the order of its package comment.
var rooms = []string{"faults", "source", "lang", "bounds", "internal/closure", "registry", "document", "internal/inline", "internal/resolve", "", "compile", "ruletest"}

func TestPackagesImportOnlyEarlierOnes(t *testing.T) {
	files := 0
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		room := path.Dir(filepath.ToSlash(name))
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		files++
		here := slices.Index(rooms, strings.TrimPrefix(room, "."))
		require.GreaterOrEqual(t, here, 0, "%s is in no room of the package comment", name)
		for _, imported := range file.Imports {
			from, err := strconv.Unquote(imported.Path.Value)
			require.NoError(t, err)
			other, isOurs := strings.CutPrefix(from, "github.com/celvpa/celvpa/")
			if !isOurs {
				continue
			}
			require.True(t, strings.HasPrefix(other, "engine"), "%s imports %s: the engine knows nothing of its host", name, from)
			require.Less(t, slices.Index(rooms, strings.Trim(strings.TrimPrefix(other, "engine"), "/")), here, "%s imports %s", name, from)
		}
		return nil
	}))
	require.Greater(t, files, 50)
}
