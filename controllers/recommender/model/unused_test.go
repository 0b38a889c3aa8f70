package model

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
)

// sampled adds a pod with a sample of its container.
func sampled(c *Cluster, name, app string, at time.Duration) PodID {
	id := aPod(c, name, app, "a")
	c.AddSample(cpuAt(id, "a", 100, at), day.Add(at))
	return id
}

// TestWorkloadsThatComeAndGoTakeNoMemory: 900 workloads that lived for 40 seconds each left 9 KB each
// for eight days.
func TestWorkloadsThatComeAndGoTakeNoMemory(t *testing.T) {
	c := NewCluster(UnusedGrace)
	most := 0
	for i := range 900 {
		at := time.Duration(i) * time.Minute
		name := fmt.Sprint("w", i)
		aWorkload(c, name, name, 0)
		id := sampled(c, name, name, at)
		c.KeepPods(map[PodID]bool{id: true})
		c.KeepWorkloads(map[WorkloadID]bool{{"ns", name}: true})
		c.Tidy(day.Add(at))
		most = max(most, c.Aggregates())
	}
	require.LessOrEqual(t, most, 12, "one lives, and those of the last ten minutes may come back")
	c.KeepPods(nil)
	c.KeepWorkloads(nil)
	c.Tidy(day.Add(1000 * time.Minute))
	c.Tidy(day.Add(1010 * time.Minute))
	require.Zero(t, c.Aggregates())
	require.Empty(t, c.namespaces)
}

func TestUsageThatSomethingRefersToStays(t *testing.T) {
	later := day.Add(time.Hour)
	for name, tt := range map[string]struct {
		left  func(c *Cluster, id PodID)
		stays bool
	}{
		"a pod":       {left: func(c *Cluster, id PodID) { c.KeepWorkloads(nil) }, stays: true},
		"a VPA":       {left: func(c *Cluster, _ PodID) { c.KeepPods(nil) }, stays: true},
		"neither":     {left: func(c *Cluster, _ PodID) { c.KeepPods(nil); c.KeepWorkloads(nil) }},
		"another VPA": {left: func(c *Cluster, _ PodID) { c.KeepPods(nil); c.KeepWorkloads(nil); aWorkload(c, "other", "y", 0) }},
		"a VPA that no longer finds its target": {stays: true, left: func(c *Cluster, _ PodID) {
			c.KeepPods(nil)
			c.SetWorkload(WorkloadID{"ns", "v"}, facts.Order{}, "x", nil)
		}},
		"a VPA that never found its target": {stays: true, left: func(c *Cluster, _ PodID) {
			c.KeepPods(nil)
			c.KeepWorkloads(nil)
			c.SetWorkload(WorkloadID{"ns", "other"}, facts.Order{}, "y", nil)
		}},
		"a VPA with another selector": {left: func(c *Cluster, _ PodID) {
			c.KeepPods(nil)
			c.SetWorkload(WorkloadID{"ns", "v"}, facts.Order{}, "x", labels.SelectorFromSet(labels.Set{"app": "y"}))
			c.SetWorkload(WorkloadID{"ns", "v"}, facts.Order{}, "x", nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCluster(UnusedGrace)
			aWorkload(c, "v", "x", 0)
			id := sampled(c, "p", "x", 0)
			tt.left(c, id)
			c.Tidy(later)
			require.Equal(t, 1, c.Aggregates(), "for ten minutes it may come back")
			c.Tidy(later.Add(9 * time.Minute))
			require.Equal(t, 1, c.Aggregates())
			c.Tidy(later.Add(10 * time.Minute))
			if tt.stays {
				require.Equal(t, 1, c.Aggregates())
			} else {
				require.Zero(t, c.Aggregates())
			}
		})
	}
}

// TestAWorkloadThatComesBackInTimeHasItsUsage: its VPA and its pods were deleted, and created again.
func TestAWorkloadThatComesBackInTimeHasItsUsage(t *testing.T) {
	c := NewCluster(UnusedGrace)
	aWorkload(c, "v", "x", 0)
	sampled(c, "p", "x", 0)
	c.KeepPods(nil)
	c.KeepWorkloads(nil)
	c.Tidy(day)
	c.Tidy(day.Add(9 * time.Minute))
	w := aWorkload(c, "v", "x", 0)
	require.Equal(t, 1, w.View().Containers[0].Samples)
	c.Tidy(day.Add(10 * time.Minute))
	c.KeepWorkloads(nil)
	c.Tidy(day.Add(11 * time.Minute))
	c.Tidy(day.Add(20 * time.Minute))
	require.Equal(t, 1, c.Aggregates(), "the ten minutes begin anew")
}

func TestWithoutGraceUnusedUsageGoesWithTheNextCycle(t *testing.T) {
	c := NewCluster(0)
	sampled(c, "p", "x", 0)
	c.KeepPods(nil)
	c.Tidy(day)
	c.Tidy(day.Add(time.Minute))
	require.Zero(t, c.Aggregates())
}

// TestContainersThatChangeAllTheTimeAreBounded where the labels of pods stay the same.
func TestContainersThatChangeAllTheTimeAreBounded(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	for i := range 1000 {
		at := time.Duration(i) * time.Minute
		name := fmt.Sprint("c", i)
		id := aPod(c, "p", "x", name, "always")
		c.AddSample(cpuAt(id, name, 1, at), day.Add(at))
		c.AddSample(cpuAt(id, "always", 1, at), day.Add(at))
		c.Tidy(day.Add(at))
		require.LessOrEqual(t, c.Aggregates(), maxDeparted+2)
	}
	view := w.View()
	require.Equal(t, "always", view.Containers[0].Container)
	require.Equal(t, 1000, view.Containers[0].Samples, "what pods have is kept")
	require.Len(t, view.Containers, maxDeparted+2)
}

// TestLabelsThatChangeAllTheTimeAreBoundedForEachWorkload, however the VPAs of a tenant overlap.
func TestLabelsThatChangeAllTheTimeAreBoundedForEachWorkload(t *testing.T) {
	c := NewCluster(UnusedGrace)
	const overlapping = 6
	c.SetWorkload(WorkloadID{"ns", "governs"}, facts.Order{}, "x", labels.SelectorFromSet(labels.Set{"app": "x"}))
	for i := range overlapping {
		id := WorkloadID{"ns", fmt.Sprint("w", i)}
		c.SetWorkload(id, facts.Order{}, "x", labels.SelectorFromSet(labels.Set{fmt.Sprint("bit", i): "1"}))
	}
	id := PodID{"ns", "p"}
	for i := range 4000 {
		at := time.Duration(i) * time.Minute
		set := map[string]string{"app": "x", "nonce": fmt.Sprint(i)}
		for bit := range overlapping {
			set[fmt.Sprint("bit", bit)] = fmt.Sprint(i >> bit & 1)
		}
		c.SetPod(id, PodSpec{Labels: set, Containers: []string{"a"}, Active: true}, day.Add(at))
		c.AddSample(cpuAt(id, "a", 1, at), day.Add(at))
		if i%10 == 9 {
			c.Tidy(day.Add(at))
			require.LessOrEqual(t, c.Aggregates(), maxCombined+1)
		}
	}
}

// TestAMissingTargetCostsNoUsage, however many Jobs its VPA selected before, next to how many others.
func TestAMissingTargetCostsNoUsage(t *testing.T) {
	const runs = 3 * maxDeparted
	c := NewCluster(UnusedGrace)
	apps := []string{"x", "y"}
	for _, app := range apps {
		aWorkload(c, app, app, 0)
	}
	run := func(i int, app string) {
		at := time.Duration(i) * time.Minute
		id := PodID{"ns", app}
		c.SetPod(id, PodSpec{Labels: map[string]string{"app": app, "job": fmt.Sprint(i)}, Containers: []string{"a"}, Active: true}, day.Add(at))
		c.AddSample(cpuAt(id, "a", 100, at), day.Add(at))
	}
	for i := range runs {
		for _, app := range append(apps, "nobody's") {
			run(i, app)
		}
		c.Tidy(day.Add(time.Duration(i) * time.Minute))
	}
	c.KeepPods(nil)
	for _, app := range apps {
		c.SetWorkload(WorkloadID{"ns", app}, facts.Order{}, "Deployment/"+app, nil)
	}
	c.SetWorkload(WorkloadID{"ns", "never"}, facts.Order{}, "never found", nil)
	for i := range 20 {
		c.Tidy(day.Add(time.Duration(runs+i) * time.Minute))
		c.CollectGarbage(day.Add(time.Duration(runs+i) * time.Minute))
	}
	require.LessOrEqual(t, c.Aggregates(), 3*maxDeparted)
	for _, app := range apps {
		usage := aWorkload(c, app, app, 0).View().Containers
		require.Len(t, usage, 1)
		require.Equal(t, runs, usage[0].Samples, app)
	}
}

// TestWorkloadsWithoutTargetsTakeNoMemory, however their last selectors overlap.
func TestWorkloadsWithoutTargetsTakeNoMemory(t *testing.T) {
	const overlapping, changes = 6, 1000
	c := NewCluster(UnusedGrace)
	label := func(bit int) string { return fmt.Sprint("bit", bit) }
	for bit := range overlapping {
		id := WorkloadID{"ns", fmt.Sprint("w", bit)}
		c.SetWorkload(id, facts.Order{}, "x", labels.SelectorFromSet(labels.Set{label(bit): "1"}))
		c.SetWorkload(id, facts.Order{}, "x", nil)
	}
	id := PodID{"ns", "p"}
	for i := range changes {
		at := time.Duration(i) * time.Minute
		set := map[string]string{label(0): "1", "nonce": fmt.Sprint(i)}
		for bit := 1; bit < overlapping; bit++ {
			set[label(bit)] = fmt.Sprint(i >> bit & 1)
		}
		c.SetPod(id, PodSpec{Labels: set, Containers: []string{"a"}, Active: true}, day.Add(at))
		c.AddSample(cpuAt(id, "a", 1, at), day.Add(at))
		if i%10 == 9 {
			c.Tidy(day.Add(at))
			require.LessOrEqual(t, c.Aggregates(), maxCombined+1)
		}
	}
}
