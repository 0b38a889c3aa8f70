package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
