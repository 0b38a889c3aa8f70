package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestTableOfWritesCountsWhatEachRowTook(t *testing.T) {
	row := writeRow{of: "statuses", writers: 4, within: 500 * time.Millisecond,
		before: taken{apiserver: 10, etcd: 5, logged: 1 << 20, database: 8 << 20, updates: 7, updating: 1},
		after:  taken{apiserver: 10.5, etcd: 5.1, logged: 1<<20 + 100*3<<10, database: 9 << 20, updates: 107, updating: 1.25}}
	for i := range 100 {
		row.took = append(row.took, time.Duration(100-i)*time.Millisecond) // not in order
	}
	silent := row // of an API server whose metrics do not say
	silent.after.updates = silent.before.updates
	var text strings.Builder
	require.NoError(t, tabulate(&text, "a title", []writeRow{row, silent}))
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{"", "a title",
		"writers writes/s p50 p99 etcd, mean API server, CPU/1000 etcd, CPU/1000 log, a write database",
		"statuses 4 200 50.00 ms 99.00 ms 2.50 ms 5.000 s 1.000 s 3.0 KiB 9.0 MiB",
		"statuses 4 200 50.00 ms 99.00 ms – 5.000 s 1.000 s 3.0 KiB 9.0 MiB",
	}, got)
	require.Equal(t, 100*time.Millisecond, row.took[0], "the row is as it was")
}

// TestNoWriteRepeatsTheOneBefore: API servers do not store what is there already.
func TestNoWriteRepeatsTheOneBefore(t *testing.T) {
	status, err := exampleStatus(time.Unix(1_800_000_000, 0))
	require.NoError(t, err)
	var types []vpav1.VerticalPodAutoscalerConditionType
	for _, c := range status.Conditions {
		types = append(types, c.Type)
	}
	require.Equal(t, []vpav1.VerticalPodAutoscalerConditionType{vpav1.LowConfidence, vpav1.RecommendationProvided, vpav1.RulesApplied}, types)
	for i := range 3 {
		for round := range 3 {
			before, next := drifted(status, i, round), drifted(status, i, round+1)
			require.NotEqual(t, before, next)
			for c := range before.Recommendation.ContainerRecommendations {
				a, b := before.Recommendation.ContainerRecommendations[c], next.Recommendation.ContainerRecommendations[c]
				require.Equal(t, a.Target, b.Target)
				require.Positive(t, b.UpperBound.Memory().Cmp(a.UpperBound[corev1.ResourceMemory]))
			}
		}
	}
}
