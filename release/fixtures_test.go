package main

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at is the time of the releases of tests.
var at = time.Unix(1_700_000_000, 0).UTC()

// small is the source of a program that compiles in seconds, in a folder of its own.
func small(t *testing.T) *source {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, os.DirFS("testdata/program")))
	for from, to := range map[string]string{"../LICENSE": "LICENSE", "go.mod": "release/go.mod", "go.sum": "release/go.sum"} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, to)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, to), text, 0o600))
	}
	return &source{root: root, program: ".", version: "v1.2.3-rc.1", commit: "abcdef", time: at}
}

// host is what this machine runs of a release.
var host = platform{"linux", runtime.GOARCH}

// celvpa is the source of this clone, with celvpa built from it for this machine, once for all tests. It is compiled as other
// tests compile it, without -trimpath, which would take minutes: TestTwoReleasesOfOneCommitAreTheSame is about that.
func celvpa(t *testing.T) (*source, *program) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("images are for Linux, and this is %s", runtime.GOOS)
	}
	s := &source{root: "..", program: "./cmd/celvpa", version: "v1.2.3-rc.1", commit: "abcdef", time: at}
	p, err := linked(s)
	require.NoError(t, err)
	return s, p
}

var (
	link          sync.Once
	linkedProgram *program
	errLinking    error
)

func linked(s *source) (*program, error) {
	link.Do(func() {
		dir, err := os.MkdirTemp("", "celvpa-release-test-")
		if err != nil {
			errLinking = err
			return
		}
		defer os.RemoveAll(dir)
		out := filepath.Join(dir, "celvpa")
		cmd := exec.Command("go", "build", "-ldflags", s.variables(), "-o", out, s.program)
		cmd.Dir, cmd.Env = s.root, append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			errLinking = errors.New(string(text))
			return
		}
		linkedProgram, errLinking = s.open(context.Background(), host, out)
	})
	return linkedProgram, errLinking
}

// unpack writes files below a folder.
func unpack(r io.Reader, dir string) error {
	files := tar.NewReader(r)
	for {
		header, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, header.FileInfo().Mode())
		case tar.TypeSymlink:
			err = os.Symlink(header.Linkname, path)
		default:
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, content, header.FileInfo().Mode())
			}
		}
		if err != nil {
			return err
		}
	}
}
