package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clone makes a git repository with one commit of 2024-01-02.
func clone(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "cmd/celvpa"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "cmd/celvpa/version.txt"), []byte("v0.9.0-dev\n"), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2024-01-02T03:04:05Z", "GIT_CONFIG_GLOBAL="+os.DevNull)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return root
}

func TestWhatAReleaseIsMadeFrom(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	root := clone(t)
	s, err := newSource(t.Context(), root, "")
	require.NoError(t, err)
	require.Equal(t, "v0.9.0-dev", s.version)
	require.Equal(t, time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC), s.time)
	require.Regexp(t, "^[0-9a-f]{40}$", s.commit)

	require.NoError(t, os.WriteFile(filepath.Join(root, "new"), nil, 0o600))
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	s, err = newSource(t.Context(), root, "v1.0.0-rc.1")
	require.NoError(t, err)
	require.Equal(t, "v1.0.0-rc.1", s.version)
	require.Equal(t, at, s.time)
	require.Regexp(t, "^[0-9a-f]{40}-dirty$", s.commit)

	_, err = newSource(t.Context(), root, "v1.0.0")
	require.EqualError(t, err, "the work tree has changes, and v1.0.0 must be what its commit says: commit them, or give a version such as v1.0.0-dev")

	t.Setenv("SOURCE_DATE_EPOCH", "today")
	_, err = newSource(t.Context(), root, "")
	require.EqualError(t, err, `SOURCE_DATE_EPOCH is "today"; it must be seconds since 1970`)
}

// TestSettingsOfGitHideNoChanges: a file that git status does not show by default is a change that would enter the program.
func TestSettingsOfGitHideNoChanges(t *testing.T) {
	root := clone(t)
	settings := filepath.Join(t.TempDir(), "gitconfig")
	require.NoError(t, os.WriteFile(settings, []byte("[status]\nshowUntrackedFiles = no\n[log]\nshowSignature = true\n"), 0o600))
	t.Setenv("GIT_CONFIG_GLOBAL", settings)
	require.NoError(t, os.WriteFile(filepath.Join(root, "cmd/celvpa/new.go"), []byte("package main\n"), 0o600))
	_, err := newSource(t.Context(), root, "v1.0.0")
	require.ErrorContains(t, err, "the work tree has changes")
}

func TestVersionsThatNoTagCanHaveAreRefused(t *testing.T) {
	root := clone(t)
	for _, version := range []string{"1.0.0", "v1.0", "v1.0.0+build", "v01.0.0", "latest", "v1.0.0-", "v1.0.0 "} {
		_, err := newSource(t.Context(), root, version)
		require.ErrorContains(t, err, "give one such as v0.1.0 or v0.1.0-rc.1", version)
	}
}

func TestAReleaseNeedsAClone(t *testing.T) {
	_, err := newSource(t.Context(), t.TempDir(), "v1.0.0")
	require.ErrorContains(t, err, "not a git repository")
	require.ErrorContains(t, err, "a release is built in a git clone of celvpa")
	_, err = newSource(t.Context(), t.TempDir(), "")
	require.ErrorContains(t, err, "cmd/celvpa/version.txt: no such file or directory; give --version")
}

func TestCommandsThatThereAreNotAreRefused(t *testing.T) {
	root := clone(t)
	require.EqualError(t, run(t.Context(), []string{"--root", root}), `"" is not a command: use all, image or push`)
	require.ErrorContains(t, run(t.Context(), []string{"--root", root, "push"}), "give --repository, such as registry.example/team")
}

// goEnvFile is a file such as go env -w writes.
func goEnvFile(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "env")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return file
}

// TestWhatGoIsBuiltWithIsThatOfTheRelease: settings that would enter the program, or build it by another Go, have no effect.
func TestWhatGoIsBuiltWithIsThatOfTheRelease(t *testing.T) {
	want := map[string]string{
		"CGO_ENABLED": "0", "GO111MODULE": "", "GOAMD64": "v1", "GOARM64": "v8.0", "GOENV": "", "GOEXPERIMENT": "", "GOFIPS140": "off",
		"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off", "GO_EXTLINK_ENABLED": "", "GODEBUG": "",
	}
	hostile := []string{
		"CGO_ENABLED=1", "GO111MODULE=off", "GOAMD64=v3", "GOARM64=v9.0", "GOEXPERIMENT=nodwarf5", "GOFIPS140=latest",
		"GOFLAGS=-gcflags=all=-N", "GOTOOLCHAIN=go1.99.0", "GOWORK=/nowhere/go.work", "GO_EXTLINK_ENABLED=1",
	}
	for name, set := range map[string]func(t *testing.T){
		"nothing set": func(*testing.T) {},
		"in the environment": func(t *testing.T) {
			for _, variable := range append(hostile, "GODEBUG=gotypesalias=0", "GOCOMPILEDEBUG=checkptr=1") {
				key, value, _ := strings.Cut(variable, "=")
				t.Setenv(key, value)
			}
		},
		"by go env -w": func(t *testing.T) { t.Setenv("GOENV", goEnvFile(t, hostile...)) },
		"by go env -w, under empty variables": func(t *testing.T) {
			for _, variable := range hostile {
				key, _, _ := strings.Cut(variable, "=")
				t.Setenv(key, "")
			}
			t.Setenv("GOENV", goEnvFile(t, hostile...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			usual, err := (&source{root: t.TempDir()}).goEnvironment(t.Context())
			require.NoError(t, err)
			set(t)
			s := &source{root: t.TempDir()}
			got, err := s.goEnvironment(t.Context())
			require.NoError(t, err)
			require.ElementsMatch(t, usual, got)

			text, err := s.runGo(t.Context(), append([]string{"env", "-json"}, slices.Sorted(maps.Keys(want))...)...)
			require.NoError(t, err)
			effective := map[string]string{}
			require.NoError(t, json.Unmarshal([]byte(text), &effective))
			require.Equal(t, want, effective)
		})
	}
}

// TestModulesAreDownloadedAsTheUserSays: by the environment before go env -w, as the go command does.
func TestModulesAreDownloadedAsTheUserSays(t *testing.T) {
	t.Setenv("GOENV", goEnvFile(t, "GOPROXY=https://proxy.example", "GOPRIVATE=example.com/private", "GOSUMDB=off", "GOMODCACHE=/modules"))
	t.Setenv("GOMODCACHE", "/other")
	t.Setenv("GOMAXPROCS", "1")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/key.json")
	for _, unset := range []string{"GOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB"} {
		t.Setenv(unset, "")
	}
	got, err := (&source{root: t.TempDir()}).goEnvironment(t.Context())
	require.NoError(t, err)
	require.Subset(t, got, []string{
		"GOPROXY=https://proxy.example", "GOPRIVATE=example.com/private", "GONOSUMDB=example.com/private", "GOSUMDB=off", "GOMODCACHE=/other",
		"GOMAXPROCS=1", "GOOGLE_APPLICATION_CREDENTIALS=/key.json", "PATH=" + os.Getenv("PATH"),
	})
}
