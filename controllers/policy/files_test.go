package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/engine/document"
)

// marker is a rule file that says which version it is.
func marker(version string) []byte {
	return []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: own}\nspec:\n  version: " + version +
		"\n  point: container.select\n  decisions: [{name: d, when: false, do: Skip}]\n")
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// TestOnlyRegularFilesOfTheFolderAreRead: none of these may block, fill the memory, or show what
// lies elsewhere.
func TestOnlyRegularFilesOfTheFolderAreRead(t *testing.T) {
	elsewhere := write(t, filepath.Join(t.TempDir(), "secret.yaml"), []byte("token: abc\n"))
	tests := []struct {
		name  string
		set   func(t *testing.T, dir string)
		wants []string // nil = it is read
	}{
		{"an endless device", func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "z.yaml")))
		},
			[]string{"z.yaml:1:1: the file cannot be read: path escapes from parent; links may lead to files in the same folder, or below, by relative paths"}},
		{"a pipe", func(t *testing.T, dir string) {
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "p.yaml"), 0o600))
		},
			[]string{"p.yaml:1:1: not a regular file, but a folder, a pipe, a socket or a device; put the text itself here"}},
		{"a link to a pipe", func(t *testing.T, dir string) {
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "p"), 0o600))
			require.NoError(t, os.Symlink("p", filepath.Join(dir, "l.yaml")))
		}, []string{"l.yaml:1:1: not a regular file"}},
		{"a link out of the folder", func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "s.yaml")))
		},
			[]string{"s.yaml:1:1: the file cannot be read: path escapes from parent"}},
		{"a link out of the folder by ..", func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("../../../../../../../../etc/hostname", filepath.Join(dir, "s.yaml")))
		}, []string{"s.yaml:1:1: the file cannot be read: path escapes from parent"}},
		{"a link in a circle", func(t *testing.T, dir string) { require.NoError(t, os.Symlink("c.yaml", filepath.Join(dir, "c.yaml"))) },
			[]string{"c.yaml:1:1: the file cannot be read: "}},
		{"a link to a folder", func(t *testing.T, dir string) { require.NoError(t, os.Symlink(".", filepath.Join(dir, "f.yaml"))) },
			[]string{"f.yaml:1:1: not a regular file"}},
		{"a large file", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "l.yaml"), make([]byte, 8<<20)) },
			[]string{"l.yaml:1:1: the file has 1048577 bytes; at most 1048576 are read: split it"}},
		{"many files", func(t *testing.T, dir string) {
			for i := range maxFiles + 1 {
				write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), nil)
			}
		}, []string{"there are more than 1000 rule files; put several documents into one file"}},
		{"much of everything", func(t *testing.T, dir string) {
			for i := range 33 {
				write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), make([]byte, 1<<20))
			}
		}, []string{"the rule files exceed 33554432 bytes at ", "remove files that hold no rules"}},
		{"all faults at once", func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "a.yaml")))
			write(t, filepath.Join(dir, "b.yaml"), []byte("kind: Nonsense\n"))
		}, []string{"a.yaml:1:1", "b.yaml:1:"}},
		{"a link within the folder", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".hidden", "own.yaml"), marker("1.0.0"))
			require.NoError(t, os.Symlink(".hidden/own.yaml", filepath.Join(dir, "own.yaml")))
		}, nil},
		{"as ConfigMaps are mounted", func(t *testing.T, dir string) { mounted(t, dir, "one", "1.0.0") }, nil},
		{"other files", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "own.yaml"), marker("1.0.0"))
			require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "README.md")))
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.set(t, dir)
			var err error
			hang.Within(t, func() { _, err = Open(Options{Path: dir}) })
			if tt.wants == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			for _, want := range tt.wants {
				require.Contains(t, err.Error(), want)
			}
			require.Contains(t, err.Error(), dir)
			require.NotContains(t, err.Error(), "abc", "what lies elsewhere is not shown")
		})
	}
}

func TestAFileThatIsNamedMayBeALink(t *testing.T) {
	to := write(t, filepath.Join(t.TempDir(), "own.yaml"), marker("1.0.0"))
	link := filepath.Join(t.TempDir(), "link.yaml")
	require.NoError(t, os.Symlink(to, link))
	r, err := Open(Options{Path: link})
	require.NoError(t, err)
	require.Equal(t, link, r.Library.RuleSets["own@1.0.0"].Name.Pos.File, "positions name what was asked for")

	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("/dev/zero", link))
	_, err = Open(Options{Path: link})
	require.ErrorContains(t, err, link+":1:1: not a regular file")
}

// mounted writes a version of a folder as kubelet mounts ConfigMaps, with many files that all say
// the version.
func mounted(t *testing.T, dir, name, version string) {
	t.Helper()
	for i := range 40 {
		text := strings.Replace(string(marker(version)), "name: own", fmt.Sprintf("name: own-%d", i), 1)
		write(t, filepath.Join(dir, ".."+name, fmt.Sprintf("%d.yaml", i)), []byte(text))
		link := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if _, err := os.Lstat(link); err != nil {
			require.NoError(t, os.Symlink(fmt.Sprintf("..data/%d.yaml", i), link))
		}
	}
	swap(t, dir, name)
}

func swap(t *testing.T, dir, name string) {
	t.Helper()
	require.NoError(t, os.Symlink(".."+name, filepath.Join(dir, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
}

// TestAFolderThatIsSwappedWhileReadIsOneVersion swaps a mounted ConfigMap and the folder itself
// over and over.
func TestAFolderThatIsSwappedWhileReadIsOneVersion(t *testing.T) {
	mount, links := t.TempDir(), t.TempDir()
	mounted(t, mount, "one", "1.0.0")
	mounted(t, mount, "two", "2.0.0")
	for _, version := range []string{"1.0.0", "2.0.0"} {
		for i := range 40 {
			text := strings.Replace(string(marker(version)), "name: own", fmt.Sprintf("name: own-%d", i), 1)
			write(t, filepath.Join(links, version, fmt.Sprintf("%d.yaml", i)), []byte(text))
		}
	}
	require.NoError(t, os.Symlink("1.0.0", filepath.Join(links, "..data"))) // swapped as the other is
	for _, at := range []struct{ dir, path, one, two string }{
		{mount, mount, "..one", "..two"}, {links, filepath.Join(links, "..data"), "1.0.0", "2.0.0"},
	} {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				to := []string{at.one, at.two}[i%2]
				next := filepath.Join(at.dir, "..next")
				if os.Symlink(to, next) != nil || os.Rename(next, filepath.Join(at.dir, "..data")) != nil {
					return // the test failed, and its folders are gone
				}
				time.Sleep(time.Duration(i%7) * time.Millisecond)
			}
		}()
		for range 200 {
			layer, err := LayerAt(at.path)
			require.NoError(t, err)
			require.Len(t, layer.Files, 40)
			versions := map[string]bool{}
			for _, f := range layer.Files {
				require.Empty(t, f.Fault)
				versions[strings.TrimSpace(strings.Split(strings.SplitAfter(string(f.Data), "version: ")[1], "\n")[0])] = true
			}
			require.Len(t, versions, 1, "two versions are mixed")
		}
		close(stop)
		<-stopped
	}
}

// TestFingerprintIsOfTheCompiledFiles: a file that changes between two looks at it must not be taken
// for the one that was compiled.
func TestFingerprintIsOfTheCompiledFiles(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "own.yaml"), marker("1.0.0"))
	layer, _, err := own(dir)
	require.NoError(t, err)
	before := fingerprint(*layer)
	write(t, path, marker("2.0.0"))
	r, err := openOver(Options{}, layer)
	require.NoError(t, err)
	require.Contains(t, r.Library.RuleSets, "own@1.0.0")
	require.Equal(t, before, fingerprint(*layer))
	again, _, err := own(dir)
	require.NoError(t, err)
	require.NotEqual(t, before, fingerprint(*again))
	require.NotEqual(t, fingerprint(document.Layer{Files: []document.File{{Name: "a", Data: []byte("b")}}}), fingerprint(document.Layer{Files: []document.File{{Name: "a", Fault: "b"}}}))
}
