package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest/history"
)

func TestHistoryNamesFilesAndServers(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	read := func(args ...string) ([]history.Source, error) {
		h, cmd := &historyFlags{}, &cobra.Command{}
		h.add(cmd)
		require.NoError(t, cmd.ParseFlags(args))
		return h.sources(cmd, now)
	}
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	a, b := file("a.csv", ""), file("b.json", "{}")
	sources, err := read("--history="+a, "--history=https://thanos/a", "--history="+b, "--history-end=2026-02-01T00:00:00Z", "--history-length=7d", "--history-header=X-Scope-OrgID: a")
	require.NoError(t, err)
	require.Len(t, sources, 2)
	server := sources[0].(history.Prometheus)
	require.Equal(t, "https://thanos/a", server.History.Address)
	require.Equal(t, "2026-02-01T00:00:00Z", server.To.Format(time.RFC3339))
	require.Equal(t, "1w", server.History.Length.String())
	require.Equal(t, []string{a, b}, sources[1].(history.Files).Paths)

	for want, args := range map[string][]string{
		"--history says where usage comes from":                                   {},
		"--history-length is for a server, and --history names none":              {"--history=a.csv", "--history-length=7d"},
		"--history=http:///x: use a URL with http or https and a host":            {"--history=http:///x"},
		"--history-end: time \"tomorrow\" is not a number":                        {"--history=http://a", "--history-end=tomorrow"},
		"--prometheus-basic-auth-file and --prometheus-bearer-token-file exclude": {"--history=http://a", "--prometheus-basic-auth-file=a", "--prometheus-bearer-token-file=b"},
	} {
		_, err := read(args...)
		require.ErrorContains(t, err, want)
	}
}
