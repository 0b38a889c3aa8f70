package usagefile

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSeriesThatContradictEachOtherAreNamed: as they are for a server.
func TestSeriesThatContradictEachOtherAreNamed(t *testing.T) {
	const metric = "container_memory_working_set_bytes"
	over := func(amount, from, to int) string { // every minute
		var out []string
		for at := from; at <= to; at++ {
			out = append(out, fmt.Sprintf(`[%d,"%d"]`, 1769853600+60*at, amount))
		}
		return strings.Join(out, ",")
	}
	at := func(pod, labels string, amount, from, to int) string {
		return strings.Replace(series(metric, labels, over(amount, from, to)), `"pod":"p"`, fmt.Sprintf(`"pod":%q`, pod), 1)
	}
	const twoClusters = `1 container has series that contradict each other, e.g. a of pod ns/p: label cluster is "blue" or "green"; ` +
		`the largest amount of each time counts. Read the series of one, with a matcher in the query such as cluster="green"`
	for name, tt := range map[string]struct {
		series []string
		want   string
	}{
		"two clusters":              {[]string{at("p", `,"cluster":"blue"`, 100, 0, 10), at("p", `,"cluster":"green"`, 900, 0, 10)}, twoClusters},
		"two clusters for weeks":    {[]string{at("p", `,"cluster":"blue"`, 100, 0, 9000), at("p", `,"cluster":"green"`, 900, 4000, 9000)}, twoClusters},
		"two clusters for a minute": {[]string{at("p", `,"cluster":"blue"`, 100, 0, 1), at("p", `,"cluster":"green"`, 900, 0, 1)}, twoClusters},
		"at one time only":          {[]string{at("p", `,"cluster":"blue"`, 100, 0, 0), at("p", `,"cluster":"green"`, 900, 0, 0)}, ""},
		"and labels of their nodes": {[]string{at("p", `,"instance":"n1"`, 100, 0, 30), at("p", `,"instance":"n2","region":"eu"`, 900, 0, 30)}, `label region is "" or "eu" (instance differ, too); the largest`},
		"two replicas":              {[]string{at("p", `,"prometheus_replica":"a"`, 100, 0, 30), at("p", `,"prometheus_replica":"b"`, 900, 0, 30)}, ""},
		"two jobs that agree":       {[]string{at("p", `,"job":"a"`, 100, 0, 30), at("p", `,"job":"b"`, 105, 0, 30)}, ""},
		"a pod that moved":          {[]string{at("p", `,"instance":"n1"`, 100, 0, 30), at("p", `,"instance":"n2"`, 900, 26, 60)}, ""},
		"a container that restarts": {[]string{at("p", `,"id":"/1"`, 100, 0, 30), at("p", `,"id":"/2"`, 900, 20, 60)}, ""},
		"pods of two clusters": {[]string{at("p", `,"cluster":"blue"`, 100, 0, 10), at("q", `,"cluster":"green"`, 100, 0, 10)},
			`usage is of several clusters: label cluster is "blue" or "green"; pods of all of them count. Read the series of one, with a matcher in the query such as cluster="green"`},
		"cores of two clusters": {[]string{series("container_cpu_usage_seconds_total", `,"cpu":"cpu00","cluster":"blue"`, `[0,"1"],[600,"2"],[1200,"3"]`),
			series("container_cpu_usage_seconds_total", `,"cpu":"cpu00","cluster":"green"`, `[0,"1"],[600,"2"],[1200,"3"]`)}, `usage is of several clusters: label cluster is "blue" or "green"`},
		"a cluster with another name": {[]string{at("p", `,"cluster":"old"`, 100, 0, 30), at("q", `,"cluster":"new"`, 100, 28, 60)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, notes, err := read(prometheus(tt.series...))
			require.NoError(t, err)
			if tt.want == "" {
				require.Empty(t, notes)
				return
			}
			require.Len(t, notes, 1)
			require.Contains(t, notes[0], tt.want)
		})
	}
	// They may be in two files.
	t.Chdir(t.TempDir())
	for i, cluster := range []string{"blue", "green"} {
		text := prometheus(at("p", fmt.Sprintf(`,"cluster":%q`, cluster), 100+900*i, 0, 10))
		require.NoError(t, os.WriteFile(cluster+".json", []byte(text), 0o600))
	}
	_, notes, err := Read([]string{"blue.json", "green.json"}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{twoClusters}, notes)
}
