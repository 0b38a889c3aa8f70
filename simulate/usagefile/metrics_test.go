package usagefile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// series is one of container a, with a name, more labels and values.
func series(name, labels, values string) string {
	return fmt.Sprintf(`{"metric":{"__name__":%q,"namespace":"ns","pod":"p","container":"a"%s},"values":[%s]}`, name, labels, values)
}

func TestOnlyMetricsOfUsageCount(t *testing.T) {
	for name, want := range map[string]string{
		"container_cpu_usage_seconds_total":  "cpu counter",
		"container_memory_working_set_bytes": "memory",
		"container_memory_usage_bytes":       "memory",

		"node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate":  "cpu",
		"node_namespace_pod_container:container_cpu_usage_seconds_total:sum_rate5m": "cpu",
		"node_namespace_pod_container:container_memory_working_set_bytes":           "memory",
		"namespace_pod_container:container_cpu_usage_seconds:rate5m":                "cpu",
		"namespace_pod_container:container_cpu_usage_seconds_total:sum":             "cpu counter",
		"cluster:container_cpu_usage_seconds_total":                                 "cpu counter",
		"container:container_memory_usage_bytes:max_over_time1h":                    "memory",

		"container_cpu_cfs_throttled_seconds_total":                                "",
		"container_cpu_user_seconds_total":                                         "",
		"container_cpu_system_seconds_total":                                       "",
		"container_cpu_load_average_10s":                                           "",
		"container_memory_max_usage_bytes":                                         "",
		"container_memory_failures_total":                                          "",
		"container_memory_rss":                                                     "",
		"container_memory_cache":                                                   "",
		"container_spec_memory_limit_bytes":                                        "",
		"container_spec_cpu_quota":                                                 "",
		"node_namespace_pod_container:container_memory_rss":                        "",
		"node_namespace_pod_container:container_memory_cache":                      "",
		"cluster:namespace:pod_memory:active:kube_pod_container_resource_limits":   "",
		"cluster:namespace:pod_cpu:active:kube_pod_container_resource_requests":    "",
		"namespace_pod:container_cpu_usage:ratio_rate5m":                           "",
		"namespace_pod:container_memory_usage_bytes:percent_of_limits":             "",
		"namespace_pod:container_cpu_usage_seconds_total:increase1h":               "",
		"namespace_pod_container:container_cpu_cfs_throttled_seconds_total:rate5m": "",
		"pod:container_cpu_usage:sum":                                              "",
		"memory":                                                                   "",
		":":                                                                        "",
	} {
		m, err := measured(map[string]string{"__name__": name})
		if want == "" {
			require.ErrorIs(t, err, errNotUsage, name)
			continue
		}
		require.NoError(t, err, name)
		got := map[Kind]string{CPU: "cpu", Memory: "memory"}[m.kind]
		if m.counter {
			got += " counter"
		}
		require.Equal(t, want, got, name)
	}
	// The label decides, but kube-state-metrics has it on requests and limits.
	m, err := measured(map[string]string{"__name__": "container_memory_rss", "resource": "memory"})
	require.NoError(t, err)
	require.Equal(t, Memory, m.kind)
	_, err = measured(map[string]string{"__name__": "kube_pod_container_resource_limits", "resource": "memory"})
	require.ErrorIs(t, err, errNotUsage)
}

func TestWhatIsNotUsageIsNamedOnce(t *testing.T) {
	u, notes, err := read(prometheus(series("container_memory_working_set_bytes", "", `[5,"7"]`), series("container_memory_failures_total", `,"scope":"container"`, `[5,"9"],[6,"9"]`),
		series("container_memory_failures_total", `,"scope":"hierarchy"`, `[5,"9"]`), series("container_cpu_cfs_throttled_seconds_total", "", `[5,"9"],[6,"10"]`)))
	require.NoError(t, err)
	require.Equal(t, []string{"5 ns/p a memory 7"}, listed(u))
	require.Equal(t, []string{"standard input: metrics that are not usage are left out: container_cpu_cfs_throttled_seconds_total (1 series), container_memory_failures_total (2 series); " + usageText}, notes)

	u, _, err = read(prometheus(series("container_memory_failures_total", "", `[5,"9"]`)))
	require.EqualError(t, err, "usage from standard input: none of its rows can be used")
	require.Empty(t, listed(u))
}

// TestTwoMetricsOfOneContainerAreNotMixed: the larger amount of each time would be that of neither.
func TestTwoMetricsOfOneContainerAreNotMixed(t *testing.T) {
	const rule = "node_namespace_pod_container:container_memory_working_set_bytes"
	for name, tt := range map[string]struct {
		series []string
		want   []string
		notes  []string
	}{
		"a metric and a recording rule of it": {
			series: []string{series("container_memory_working_set_bytes", "", `[5,"7"]`), series(rule, "", `[5,"9"],[6,"9"]`)},
			want:   []string{"5 ns/p a memory 7"},
			notes:  []string{"two metrics of memory are not mixed: container_memory_working_set_bytes counts, and " + rule + " is left out for 1 container, e.g. a of pod ns/p"},
		},
		"usage with the page cache yields, though it comes first": {
			series: []string{series("container_memory_usage_bytes", "", `[5,"9"]`), series("container_memory_working_set_bytes", "", `[5,"7"]`)},
			want:   []string{"5 ns/p a memory 7"},
			notes:  []string{"two metrics of memory are not mixed: container_memory_working_set_bytes counts, and container_memory_usage_bytes is left out for 1 container, e.g. a of pod ns/p"},
		},
		"usage with the page cache alone": {series: []string{series("container_memory_usage_bytes", "", `[5,"9"]`)}, want: []string{"5 ns/p a memory 9"}},
		"a rate beside its counter": {
			series: []string{series("container_cpu_usage_seconds_total", "", `[5,"1"],[6,"2"]`), series("", `,"resource":"cpu"`, `[6,"3"]`)},
			want:   []string{"6 ns/p a cpu 1000"},
			notes:  []string{`two metrics of CPU are not mixed: container_cpu_usage_seconds_total counts, and {resource="cpu"} is left out for 1 container, e.g. a of pod ns/p`},
		},
		"a counter with a single value": {
			series: []string{series("container_cpu_usage_seconds_total", "", `[5,"1"]`), series("", `,"resource":"cpu"`, `[6,"3"]`)},
			want:   []string{"6 ns/p a cpu 3000"},
		},
		"two series of one metric": {
			series: []string{series(rule, `,"prometheus_replica":"a"`, `[5,"7"]`), series(rule, `,"prometheus_replica":"b"`, `[5,"9"]`)},
			want:   []string{"5 ns/p a memory 9", "5 ns/p a memory 7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, notes, err := read(prometheus(tt.series...))
			require.NoError(t, err)
			require.Equal(t, tt.want, listed(u))
			require.Equal(t, tt.notes, notes)
		})
	}
}
