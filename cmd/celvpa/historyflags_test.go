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
		return h.sources(cmd, now, times{}, nil)
	}
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	a, b := file("a.csv", ""), file("b.json", "{}")
	sources, err := read("--history="+a, "--history=https://thanos/a", "--history="+b, "--history-length=7d", "--prometheus-header=X-Scope-OrgID: a")
	require.NoError(t, err)
	require.Len(t, sources, 2)
	server := sources[1].(*history.Prometheus)
	require.Equal(t, "https://thanos/a", server.History.Address)
	require.Equal(t, times{now.AddDate(0, 0, -7), now}, times{server.From, server.To})
	require.Equal(t, []string{a, b}, sources[0].(history.Files).Paths)

	for want, args := range map[string][]string{
		"--history says where usage comes from":                                   {},
		"--history-length is for a server, and --history names none":              {"--history=a.csv", "--history-length=7d"},
		"--history: use a URL with http or https, a host":                         {"--history=http:///x"},
		"--prometheus-basic-auth-file and --prometheus-bearer-token-file exclude": {"--history=http://a", "--prometheus-basic-auth-file=a", "--prometheus-bearer-token-file=b"},
	} {
		_, err := read(args...)
		require.ErrorContains(t, err, want)
	}
}

// TestServersAreAskedForWhatIsReplayed: a part of the history costs a part of the requests.
func TestServersAreAskedForWhatIsReplayed(t *testing.T) {
	now := time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
	march := func(day int) time.Time { return time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC) }
	for name, tt := range map[string]struct {
		flags  []string
		wanted times
		want   times
	}{
		"nothing is said":                    {want: times{march(1), now}},
		"only the end is replayed":           {wanted: times{from: march(20)}, want: times{march(20), now}},
		"only the beginning is replayed":     {wanted: times{to: march(20)}, flags: []string{"--history-length=7d"}, want: times{march(13), march(20)}},
		"more is replayed than 30 days":      {wanted: times{from: march(1).AddDate(0, -1, 0)}, want: times{march(1).AddDate(0, -1, 0), now}},
		"more is replayed than is asked for": {wanted: times{march(1), march(31)}, flags: []string{"--history-length=7d"}, want: times{march(24), march(31)}},
		"the end is in the future":           {wanted: times{to: now.AddDate(0, 0, 1)}, want: times{march(1), now}},
	} {
		t.Run(name, func(t *testing.T) {
			h, cmd := &historyFlags{}, &cobra.Command{}
			h.add(cmd)
			require.NoError(t, cmd.ParseFlags(append(tt.flags, "--history=http://a")))
			sources, err := h.sources(cmd, now, tt.wanted, nil)
			require.NoError(t, err)
			server := sources[0].(*history.Prometheus)
			require.Equal(t, tt.want, times{server.From, server.To})
		})
	}
}
