package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/compile"
)

// settled reloads until what was written is in use, or refused.
func settled(t *testing.T, s *Source) {
	t.Helper()
	s.Reload(t.Context())
	s.Reload(t.Context())
}

const overlayFile = `apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: part-%d}
spec:
  change:
  - params: {%s: %s}
`

// parts are files of overlays that belong together: each raises another setting, to the same number.
var parts = []string{"estimate.marginFraction", "estimate.lowConfidence", "estimate.target.cpu", "estimate.target.memory"}

func part(i int, value string) []byte { return fmt.Appendf(nil, overlayFile, i, parts[i], value) }

func writeParts(t *testing.T, dir, value string) {
	t.Helper()
	for i := range parts {
		write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), part(i, value))
	}
}

// cut ends a file before a text.
func cut(t *testing.T, file, before string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	at := strings.Index(string(text), before)
	require.Positive(t, at)
	require.NoError(t, os.Truncate(file, int64(at)))
}

// versions are the numbers that the overlays in force set.
func versions(book *compile.Rulebook) []string {
	var out []string
	for _, o := range book.Overlays() {
		for _, c := range o.Changes {
			for _, value := range c.Params {
				out = append(out, value.Expression.Value)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestFilesThatAreReplacedOneByOneAreNeverMixed: the source looks between any two of them, and while
// one is written.
func TestFilesThatAreReplacedOneByOneAreNeverMixed(t *testing.T) {
	dir := t.TempDir()
	writeParts(t, dir, "0.5")
	s, logged, _ := newSource(t, dir)
	require.Equal(t, []string{"0.5"}, versions(s.Rules()))
	before := s.Rules()
	for i := range parts {
		text := part(i, "0.7")
		for _, half := range [][]byte{nil, text[:len(text)/2], text} {
			write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), half)
			s.Reload(t.Context())
			require.Same(t, before, s.Rules(), "the last good rules stay, whole")
		}
	}
	require.Empty(t, *logged, "nothing to worry about")
	s.Reload(t.Context())
	require.Equal(t, []string{"0.7"}, versions(s.Rules()))
	require.Len(t, *logged, 1)
}

// TestHalfWrittenFilesAreRefusedByNameAndLine when they stay as they are.
func TestHalfWrittenFilesAreRefusedByNameAndLine(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, file string)
		wants string
	}{
		"emptied":               {func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 0)) }, "1.yaml:1:1: the file is empty: write its rules again, or delete it"},
		"cut off":               {func(t *testing.T, file string) { cut(t, file, ": 0.5") }, "1.yaml:6:13: not valid YAML"},
		"cut off between lines": {func(t *testing.T, file string) { cut(t, file, "spec:") }, "1.yaml:1:1: RuleOverlay part-1"},
		"zeros after a crash":   {func(t *testing.T, file string) { write(t, file, make([]byte, 100)) }, "1.yaml:1:1: "},
		"a link into nothing": {func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Symlink("gone.yaml", file))
		}, "1.yaml:1:1: the file cannot be read: no such file or directory"},
		"all gone": {func(t *testing.T, file string) { require.NoError(t, os.RemoveAll(filepath.Dir(file))) }, "no such file or directory"},
		"all files gone": {func(t *testing.T, file string) {
			dir := filepath.Dir(file)
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Mkdir(dir, 0o700))
		}, "holds no rule files"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "rules")
			writeParts(t, dir, "0.5")
			s, logged, _ := newSource(t, dir)
			before := s.Rules()
			tt.spoil(t, filepath.Join(dir, "1.yaml"))
			settled(t, s)
			settled(t, s)
			require.Same(t, before, s.Rules(), "the last good rules stay")
			require.Len(t, *logged, 1, "it is logged once")
			require.Contains(t, (*logged)[0], filepath.Join(dir))
			require.Contains(t, (*logged)[0], tt.wants)
			require.NoError(t, os.RemoveAll(dir))
			writeParts(t, dir, "0.7")
			settled(t, s)
			require.Equal(t, []string{"0.7"}, versions(s.Rules()))
		})
	}
}

// TestAMountedConfigMapTakesEffectAtOnce: it changes at once, so there is nothing to wait for. A file
// beside it ends that.
func TestAMountedConfigMapTakesEffectAtOnce(t *testing.T) {
	dir := t.TempDir()
	writeParts(t, filepath.Join(dir, "..one"), "0.5")
	writeParts(t, filepath.Join(dir, "..two"), "0.7")
	swap(t, dir, "one")
	for i := range parts {
		name := fmt.Sprintf("%d.yaml", i)
		require.NoError(t, os.Symlink("..data/"+name, filepath.Join(dir, name)))
	}
	s, _, _ := newSource(t, dir)
	require.Equal(t, []string{"0.5"}, versions(s.Rules()))
	swap(t, dir, "two")
	s.Reload(t.Context())
	require.Equal(t, []string{"0.7"}, versions(s.Rules()))
	swap(t, dir, "one")
	write(t, filepath.Join(dir, "beside.yaml"), marker("1.0.0"))
	s.Reload(t.Context())
	require.Equal(t, []string{"0.7"}, versions(s.Rules()))
	s.Reload(t.Context())
	require.Equal(t, []string{"0.5"}, versions(s.Rules()))
}
