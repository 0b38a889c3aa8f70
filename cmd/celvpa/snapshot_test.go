package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSnapshotCommand(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	objects := file("shop.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: shop, namespace: web}, spec: {template: {spec: {containers: [{name: app}]}}}}")
	usage := file("usage.csv", "2026-01-31T10:00:00Z,web,shop-7c5687bd57-659fr,app,cpu,0.12\nnonsense\n")
	salt := file("salt", "too short")
	run := func(args ...string) (string, error) {
		var said bytes.Buffer
		cmd := snapshotCommand()
		cmd.SetArgs(args)
		cmd.SetErr(&said)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		return said.String(), err
	}
	to := filepath.Join(folder, "shop.tar.gz")
	said, err := run("-f", objects, "--history", usage, "--to", to)
	require.NoError(t, err)
	require.Contains(t, said, "usage.csv:2: it has 1 columns and not 6")
	require.Contains(t, said, to+": 1 object and 1 point of usage\n")

	// A snapshot is a source of a snapshot, with its objects.
	again := filepath.Join(folder, "again.tar.gz")
	_, err = run("--history", to, "--to", again, "--anonymise")
	require.NoError(t, err)
	require.FileExists(t, again)

	for want, args := range map[string][]string{
		"--to names the file to write":                   {"-f", objects, "--history", usage},
		"--history says where usage comes from":          {"-f", objects, "--to", to},
		"--salt-file is for --anonymise":                 {"-f", objects, "--history", usage, "--to", to, "--salt-file", salt},
		"has 9 bytes; use at least 16":                   {"-f", objects, "--history", usage, "--to", to, "--anonymise", "--salt-file", salt},
		"-f and --history cannot both be standard input": {"-f", "-", "--history", "-", "--to", to},
		"-f and --namespace exclude each other":          {"-f", objects, "-n", "web", "--history", usage, "--to", to},
		"--to " + folder + " is a folder; name a file":   {"-f", objects, "--history", filepath.Join(folder, "none.csv"), "--to", folder}, // it is not read first
		"--to: open /nowhere/":                           {"-f", objects, "--history", usage, "--to", "/nowhere/x"},
	} {
		_, err := run(args...)
		require.ErrorContains(t, err, want)
	}
	// What gives nothing does not replace what there is.
	before, err := os.ReadFile(to)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/query_range" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`)) // no series match
	}))
	defer server.Close()
	for _, from := range []string{server.URL, server.URL + "/tenant", filepath.Join(folder, "none.csv")} {
		said, err := run("-f", objects, "--history", from, "--to", to)
		require.ErrorContains(t, err, "no usage came, so "+to+" is not written")
		require.NotContains(t, said, "of usage")
		after, err := os.ReadFile(to)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	entries, err := filepath.Glob(filepath.Join(folder, "*.part"))
	require.NoError(t, err)
	require.Empty(t, entries, "nothing is left behind")
}
