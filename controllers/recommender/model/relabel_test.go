package model

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
)

// TestTheMemoryPeakOfAPodMovesWithItsLabels: a pod whose labels change in an open window is remembered by the largest sample of the
// window, once, by all workloads that select it before and after. Its peak was taken out of a history that did not have it, which
// then forgot other pods, and ten pods of 500 MiB had a p90 of 105 MiB.
func TestTheMemoryPeakOfAPodMovesWithItsLabels(t *testing.T) {
	c := NewCluster(DefaultSettings())
	all := aWorkload(c, "all", "x", time.Hour)
	labelled := c.SetWorkload(WorkloadID{"ns", "labelled"}, since(day), "Deployment/x", labels.SelectorFromSet(labels.Set{"app": "x", "seen": "late"}))
	const mib = 1 << 20
	relabel := func(id PodID, seen string) {
		c.SetPod(id, PodSpec{Labels: map[string]string{"app": "x", "seen": seen}, Containers: []string{"a"}, Active: true}, day)
	}
	var ids []PodID
	for i := range 10 {
		ids = append(ids, aPod(c, fmt.Sprintf("p%d", i), "x", "a"))
	}
	sample := func(bytes int64, after time.Duration) {
		for _, id := range ids {
			require.Equal(t, Accepted, c.AddSample(memoryAt(id, "a", bytes, after), day.Add(after)))
		}
	}
	sample(100*mib, time.Minute)
	for _, id := range ids {
		relabel(id, "yes")
	}
	sample(500*mib, 2*time.Minute)
	for _, part := range []float64{0.01, 0.5, 0.9, 0.99} {
		require.InDelta(t, 500*mib, memoryIn(c, all).Percentile(part), 30*mib, "each pod counts once, by its peak")
	}

	// A workload that selects only the new labels begins with the next sample, and what was used before stays with the others.
	for _, id := range ids {
		relabel(id, "late")
	}
	require.True(t, memoryIn(c, labelled).IsEmpty())
	sample(200*mib, 3*time.Minute)
	require.InDelta(t, 200*mib, memoryIn(c, labelled).Percentile(0.9), 15*mib)
	require.InDelta(t, 500*mib, memoryIn(c, all).Percentile(0.9), 30*mib)
}
