// Package rooms holds docs/design/core.md: which packages there are, and which may import which.
package rooms

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/celvpa/celvpa/"
)

// outside are folders whose packages may import anything: tests, generators, and modules of their own.
var outside = []string{"conformance", "deploy", "release", "bin", "dist"}

var named = regexp.MustCompile("`([^`]+)`")

// order reads the packages of the table, from those that import nothing to those that may import all. A name that ends in /…
// is each package below it that has no name of its own.
func order(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "design", "core.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| packages | what lives there |")
	require.True(t, found)
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 && !strings.HasPrefix(strings.TrimSpace(cells[1]), "---") {
			for _, name := range named.FindAllStringSubmatch(cells[1], -1) {
				out = append(out, name[1])
			}
		}
	}
	return out
}

// roomOf is the place of a package in the order; -1 = none.
func roomOf(order []string, name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return slices.IndexFunc(order, func(room string) bool {
		below, all := strings.CutSuffix(room, "/…")
		return all && (name == below || strings.HasPrefix(name, below+"/"))
	})
}

func TestPackagesImportOnlyThoseAboveThem(t *testing.T) {
	rooms := order(t)
	used, files := map[string]bool{}, 0
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, name)
		require.NoError(t, err)
		inside = filepath.ToSlash(inside)
		if entry.IsDir() {
			if slices.Contains(outside, inside) || strings.HasPrefix(entry.Name(), ".") && inside != "." || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		here := path.Dir(inside)
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(here, "/pagetest") || strings.HasSuffix(here, "/generate") {
			return nil
		}
		files++
		room := roomOf(rooms, here)
		require.GreaterOrEqual(t, room, 0, "package %s is not in docs/design/core.md", here)
		used[rooms[room]] = true
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, imported := range file.Imports {
			from, err := strconv.Unquote(imported.Path.Value)
			require.NoError(t, err)
			other, ours := strings.CutPrefix(from, module)
			if !ours || strings.HasPrefix(other, "conformance/rules") && here == "cmd/celvpa" { // the tables that `celvpa test` runs
				continue
			}
			above := roomOf(rooms, other)
			require.True(t, above >= 0 && above <= room, "%s imports %s, which comes below package %s in docs/design/core.md", inside, other, here)
		}
		return nil
	}))
	require.Greater(t, files, 300)
	for _, room := range rooms {
		require.True(t, used[room], "docs/design/core.md names %s, which holds no package", room)
	}
}

// TestThePictureNamesEachTopLevelPackage, and nothing that is no package.
func TestThePictureNamesEachTopLevelPackage(t *testing.T) {
	picture, err := os.ReadFile(filepath.Join(root, "docs", "pictures", "architecture.svg"))
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, name := range regexp.MustCompile(`class="code[^"]*"[^>]*>([^<]+)<`).FindAllStringSubmatch(string(picture), -1) {
		require.DirExists(t, filepath.Join(root, name[1]))
		top, _, _ := strings.Cut(name[1], "/")
		shown[top] = true
	}
	for _, room := range order(t) {
		top, _, _ := strings.Cut(room, "/")
		require.True(t, shown[top], "docs/pictures/architecture.svg lacks %s", top)
	}
}
