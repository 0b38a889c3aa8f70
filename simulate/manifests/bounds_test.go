package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// endless is a text that never ends.
type endless struct {
	text string
	read int
}

func (e *endless) Read(into []byte) (n int, err error) {
	for n+len(e.text) <= len(into) {
		n += copy(into[n:], e.text)
	}
	if n == 0 {
		n = copy(into, strings.Repeat(" ", len(into)))
	}
	e.read += n
	return n, nil
}

// TestEndlessManifestsEnd: they were read until memory was full.
func TestEndlessManifestsEnd(t *testing.T) {
	const much = "it takes too much memory, with what was read before: give fewer objects, such as those of one namespace"
	for name, text := range map[string]string{"text": "x", "lines": "a\n", "lists": "[],", "documents": "---\na: b\n"} {
		t.Run(name, func(t *testing.T) {
			from := &endless{text: text}
			require.Less(t, hang.Bytes(t, func() {
				_, err := Files{Paths: []string{Stdin}, memory: 8 << 20}.Read(from)
				require.EqualError(t, err, "cannot read standard input: "+much)
			}), uint64(32<<20))
			require.Less(t, from.read, 2<<20)
		})
	}
	// All files together, and those before count.
	root := repository(t, map[string]string{"a.yaml": plainVPA, "b.yaml": "# " + strings.Repeat("x", 1<<20) + "\n", "c.yaml": plainVPA})
	set, err := Files{Paths: []string{root}, memory: 4 << 20}.Read(nil)
	require.EqualError(t, err, "cannot read "+filepath.Join(root, "b.yaml")+": "+much+"\ncannot read "+filepath.Join(root, "c.yaml")+": "+much)
	require.Len(t, set.Documents, 1)
}

// TestPipesInFoldersAreNamedAndLeftOut: one that nobody writes to was waited for, for ever. One that is named is read.
func TestPipesInFoldersAreNamedAndLeftOut(t *testing.T) {
	root := repository(t, map[string]string{"vpa.yaml": plainVPA})
	pipe := filepath.Join(root, "pipe.yaml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "kustomization.yaml"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(root, "zero.json")))
	hang.Within(t, func() {
		set, err := Files{Paths: []string{root}}.Read(nil)
		require.NoError(t, err)
		require.Len(t, set.Documents, 1)
		require.Equal(t, "files in folders left out: 3 are not regular files, such as pipes or devices (/kustomization.yaml, /pipe.yaml, /zero.json); name a file with -f to see what is wrong with it", strings.ReplaceAll(set.LeftOut(), root, ""))
	})
	hang.Within(t, func() {
		go func() { _ = os.WriteFile(pipe, []byte(plainVPA), 0) }()
		set, err := Files{Paths: []string{pipe}}.Read(nil)
		require.NoError(t, err)
		require.Len(t, set.Documents, 1)
	})
}
