package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTablesOfThePageAreReplaced(t *testing.T) {
	measured := func(vpas int, rss, cpu float64) size {
		return size{vpas: vpas, recommender: []value{{"minutes", count, 60}, {"RSS, peak", mebibytes, rss}, {"CPU per minute", seconds, cpu}},
			updater: []value{{"RSS, peak", mebibytes, rss / 2}, {"CPU per minute", seconds, cpu}, {"pods per second", count, 41234.5}}}
	}
	page := sizes{measured(100, 60<<20, 0.3), measured(50000, 3<<30, 24)}
	file := filepath.Join(t.TempDir(), "sizing.md")
	require.NoError(t, os.WriteFile(file, []byte("before\n"+tablesBegin+"\nold\n"+tablesEnd+"\nafter\n"), 0o600))
	for range 2 {
		require.NoError(t, page.replaceIn(file, "which were busy"))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(text), "old")
	require.Contains(t, string(text), "before\n"+tablesBegin+"\n| VPAs |")
	require.Contains(t, string(text), "| 100 | 300 | 600 | 50m | 128Mi | 50 | 50m | 64Mi |")
	require.Contains(t, string(text), "| 50,000 | 150,000 | 300,000 | 800m | 3840Mi | 500 |")
	require.Contains(t, string(text), "| 41,234 |")
	require.Contains(t, string(text), "cores, which were busy, for 60 minutes of the cluster's time:")
	require.Contains(t, string(text), "adds\n62 KiB and 0.47 ms of CPU a minute to the recommender, and 31 KiB")
	require.Contains(t, string(text), tablesEnd+"\nafter\n")
	require.NoError(t, os.WriteFile(file, []byte("nothing"), 0o600))
	require.ErrorContains(t, page.replaceIn(file, "which were busy"), "has no lines")
}

func TestPaceFollowsTheSize(t *testing.T) {
	minute, qps := pace(50000)
	require.Equal(t, "21s", minute.String())
	require.Equal(t, 500.0, qps)
	_, qps = pace(100)
	require.Equal(t, 50.0, qps)
}
