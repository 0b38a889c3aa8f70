package model

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
)

// TestTheMemoryPeakOfAPodMovesWithItsLabels: a pod whose labels change in an open window is remembered by the largest sample of the
// window, once, by all workloads that select it before and after. Its peak was taken out of a history that did not have it, which
// then forgot other pods, and ten pods of 500 MiB had a p90 of 105 MiB.
func TestTheMemoryPeakOfAPodMovesWithItsLabels(t *testing.T) {
	c := NewCluster(UnusedGrace)
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

// TestAPodThatIsDeletedAfterItsLabelsChangedLeavesItsPeak: controllers label pods that they are about to delete. The next collection of
// garbage dropped the peak that had moved, because no CPU sample had come under the new labels.
func TestAPodThatIsDeletedAfterItsLabelsChangedLeavesItsPeak(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	for name, bytes := range map[string]int64{"stays": 1e9, "goes": 5e9} {
		id := aPod(c, name, "x", "a")
		require.Equal(t, Accepted, c.AddSample(cpuAt(id, "a", 100, 0), day))
		require.Equal(t, Accepted, c.AddSample(memoryAt(id, "a", bytes, 0), day))
	}
	c.SetPod(PodID{"ns", "goes"}, PodSpec{Labels: map[string]string{"app": "x", "state": "PreparingDelete"}, Containers: []string{"a"}, Active: true}, day)
	c.KeepPods(map[PodID]bool{{"ns", "stays"}: true})
	c.CollectGarbage(day.Add(time.Minute))
	require.Equal(t, above(5e9), memoryIn(c, w).Percentile(0.9))
	require.Equal(t, 2.0, memoryIn(c, w).total/memoryIn(c, w).decay(day.Add(24*time.Hour)), "a window each")

	c.CollectGarbage(day.Add(facts.DefaultWindow().Length()))
	require.Zero(t, c.Aggregates(), "it ends like all other history")
}
