package model

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// churn gives a pod other labels every minute, and samples it each time.
func churn(c *Cluster, app string, minutes int) (now time.Time) {
	id := PodID{"ns", "p"}
	for i := range minutes {
		after := time.Duration(i) * time.Minute
		now = day.Add(after)
		c.SetPod(id, PodSpec{Labels: map[string]string{"app": app, "nonce": fmt.Sprint(i)}, Containers: []string{"a"}, Active: true}, now)
		c.AddSample(cpuAt(id, "a", int64(i%1000), after), now)
		c.AddSample(memoryAt(id, "a", int64(i%1000)<<20, after), now)
		if i%60 == 59 {
			c.CollectGarbage(now)
		}
	}
	c.CollectGarbage(now)
	return now
}

// A tenant whose pods change their labels all the time takes no memory for each change, and loses
// nothing that was learnt.
func TestLabelsThatChangeAllTheTimeTakeNoMemoryForEver(t *testing.T) {
	const minutes = 5 * 24 * 60
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	now := churn(c, "x", minutes)
	require.LessOrEqual(t, c.Aggregates(), maxDeparted+1)
	grown := int64(heap()) - int64(before)
	t.Logf("%d changes of labels: %d aggregates, %d KiB", minutes, c.Aggregates(), grown>>10)
	require.Less(t, grown, int64(4<<20))

	view := w.View().Containers[0]
	require.Equal(t, minutes, view.Samples, "all of them count")
	require.True(t, view.FirstSample.Equal(day) && view.LastSample.Equal(now))
	quiet := NewCluster(UnusedGrace)
	other := aWorkload(quiet, "v", "x", 0)
	id := aPod(quiet, "p", "x", "a")
	for i := range minutes {
		after := time.Duration(i) * time.Minute
		quiet.AddSample(cpuAt(id, "a", int64(i%1000), after), day.Add(after))
	}
	for _, p := range []float64{0.5, 0.9, 0.95} {
		require.Equal(t, other.View().Containers[0].CPU.Percentile(p), view.CPU.Percentile(p), "and weigh what they weigh without a change")
	}
	_, _, ok := w.Checkpoint("a", now)
	require.True(t, ok)
	c.KeepPods(nil)
	c.CollectGarbage(now.Add(9 * 24 * time.Hour))
	require.Zero(t, c.Aggregates(), "and it expires as ever")
}

func TestLabelsOfPodsOfNobodyTakeNoMemoryForEver(t *testing.T) {
	c := NewCluster(UnusedGrace)
	churn(c, "x", 1000)
	require.LessOrEqual(t, c.Aggregates(), maxDeparted+1)
}

// Workloads that share only some pods keep their usage apart.
func TestUsageOfDepartedPodsStaysWithItsWorkloads(t *testing.T) {
	c := NewCluster(UnusedGrace)
	x, y := aWorkload(c, "x", "x", 0), aWorkload(c, "y", "y", 0)
	churn(c, "x", 300)
	c.KeepPods(nil)
	churn(c, "y", 200)
	require.Equal(t, 300, x.View().Containers[0].Samples)
	require.Equal(t, 200, y.View().Containers[0].Samples)
}

func TestNamesOfContainersThatChangeAllTheTimeTakeNoMemoryForEver(t *testing.T) {
	c := NewCluster(UnusedGrace)
	aWorkload(c, "v", "x", 0)
	for i := range 1000 {
		after := time.Duration(i) * time.Minute
		id, name := PodID{"ns", fmt.Sprint("p", i)}, fmt.Sprint("c", i)
		c.SetPod(id, PodSpec{Labels: map[string]string{"app": "x", "nonce": fmt.Sprint(i)}, Containers: []string{name}, Active: true}, day.Add(after))
		c.AddSample(cpuAt(id, name, 1, after), day.Add(after))
		c.KeepPods(map[PodID]bool{id: true})
	}
	c.KeepPods(nil)
	c.CollectGarbage(day.Add(1000 * time.Minute))
	require.LessOrEqual(t, c.Aggregates(), 2*maxDeparted)
}

// A name that a container had once is not remembered for ever.
func TestNamesOfContainersThatAreGoneAreForgotten(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	for i := range 500 {
		id := aPod(c, "p", "x", fmt.Sprint("c", i))
		c.AddSample(cpuAt(id, fmt.Sprint("c", i), 1, 0), day)
	}
	c.KeepPods(nil)
	c.CollectGarbage(day.Add(9 * 24 * time.Hour))
	require.Empty(t, w.revisions)
	id := aPod(c, "p", "x", "c0")
	c.AddSample(cpuAt(id, "c0", 1, 9*24*time.Hour), day.Add(9*24*time.Hour))
	require.Greater(t, w.Revision("c0"), uint64(500), "one that comes back was never written as it is now")
}
