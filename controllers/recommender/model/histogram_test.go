package model

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
)

// The numbers are those of UPSTREAM.md §2.12.
func TestBucketsAreUpstreams(t *testing.T) {
	require.Equal(t, 176, cpuBuckets.count)
	require.Equal(t, 176, memoryBuckets.count)
	require.Equal(t, 1021.1094089048601, cpuBuckets.start(175))
	require.InEpsilon(t, 1.02110940890486e12, memoryBuckets.start(175), 1e-14)
	for value, bucket := range map[float64]int{0: 0, 0.0099: 0, 0.0205: 1, 0.1: 8, 0.5: 25, 1: 36, 2: 49, 4: 62, 10: 80, 1e6: 175} {
		require.Equal(t, bucket, cpuBuckets.find(value), "%v cores", value)
	}
	for value, bucket := range map[float64]int{0: 0, 1e8: 8, 262144000: 17, 1e9: 36, 1 << 30: 37, 2e9: 49, 1e15: 175} {
		require.Equal(t, bucket, memoryBuckets.find(value), "%v bytes", value)
	}
	for n, start := range []float64{0, 0.01, 0.0205, 0.031525, 0.04310125} {
		require.InDelta(t, start, cpuBuckets.start(n), 1e-12)
	}
	require.Equal(t, 0.020499999999999987, cpuBuckets.start(2), "the edge at which find and start disagree")
}

func TestPercentilesOfAnEmptyAndOfOneBucket(t *testing.T) {
	h := NewCPUHistogram(24 * time.Hour)
	require.True(t, h.IsEmpty())
	require.Zero(t, h.Percentile(0.9))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h.Add(1, 0.1, at)
	require.False(t, h.IsEmpty())
	for _, p := range []float64{-1, 0, 0.5, 1, 2} {
		require.Equal(t, cpuBuckets.start(37), h.Percentile(p))
	}
	h.Add(5000, 10, at)
	require.Equal(t, cpuBuckets.start(175), h.Percentile(1), "the last bucket has no upper edge")
	h.Subtract(1, 0.1, at)
	h.Subtract(5000, 10, at)
	require.True(t, h.IsEmpty(), "what was added can be taken back")
}

func TestWeightsDecayByHalfLives(t *testing.T) {
	at := time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)
	h := NewCPUHistogram(24 * time.Hour)
	h.Add(1, 1, at)
	require.Equal(t, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), h.reference, "the nearest midnight")
	elevenHoursEarly := math.Exp2(-11.0 / 24)
	require.InDelta(t, elevenHoursEarly, h.total, 1e-12)
	h.Add(2, 1, at.Add(24*time.Hour))
	require.InDelta(t, 3*elevenHoursEarly, h.total, 1e-12, "a day newer counts twice")
	h.Add(4, 1, at.Add(150*24*time.Hour))
	require.InDelta(t, elevenHoursEarly, h.total, 1e-12, "after 100 half-lives the reference moves and the old fades")
	require.Equal(t, cpuBuckets.start(63), h.Percentile(0.5))
}

func TestMergeAddsUpAndLeavesItsSourceAlone(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	young, old := NewMemoryHistogram(24*time.Hour), NewMemoryHistogram(24*time.Hour)
	old.Add(1e9, 1, at)
	young.Add(2e9, 1, at.Add(48*time.Hour))
	reference, total := old.reference, old.total
	into := NewMemoryHistogram(24 * time.Hour)
	into.Merge(young)
	into.Merge(old)
	require.InDelta(t, 1.25, into.total, 1e-9)
	require.Equal(t, reference, old.reference)
	require.Equal(t, total, old.total)
	other := NewMemoryHistogram(24 * time.Hour)
	other.Merge(old)
	other.Merge(young)
	require.InDelta(t, into.total, other.total, 1e-9, "the order does not matter")
	require.Equal(t, into.Percentile(0.9), other.Percentile(0.9))
}

// TestMemoryKeepsOnePeakAWindow follows UPSTREAM.md §2.9 and §2.22.
func TestMemoryKeepsOnePeakAWindow(t *testing.T) {
	at := time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)
	c := &Container{aggregate: NewAggregate(DefaultSettings())}
	add := func(bytes int64, after time.Duration) bool { return c.addMemory(bytes, at.Add(after), 24*time.Hour) }
	require.True(t, add(1e9, 0))
	require.Equal(t, at.Add(24*time.Hour), c.windowEnd)
	require.True(t, add(5e8, time.Minute))
	require.EqualValues(t, 1e9, c.memoryPeak)
	require.True(t, add(13e8, 3*time.Minute))
	require.EqualValues(t, 13e8, c.memoryPeak)
	require.Equal(t, memoryBuckets.start(memoryBuckets.find(13e8)+1), c.aggregate.Memory.Percentile(0.01), "the old peak is taken back")
	require.False(t, add(2e9, 2*time.Minute), "older than the last sample")
	require.False(t, add(-1, 4*time.Minute))
	require.True(t, add(5e8, 25*time.Hour))
	require.Equal(t, at.Add(48*time.Hour), c.windowEnd)
	require.True(t, add(5e8, 100*time.Hour))
	require.Equal(t, at.Add(120*time.Hour), c.windowEnd)
	require.Equal(t, memoryBuckets.start(memoryBuckets.find(13e8)+1), c.aggregate.Memory.Percentile(1), "closed windows stay")
}

func TestSamplesAreAcceptedAsUpstreamDoes(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cluster := NewCluster(DefaultSettings())
	id := PodID{Namespace: "ns", Name: "p"}
	cluster.SetPod(id, PodSpec{Labels: map[string]string{"app": "x"}, Containers: []string{"a"}, InitContainers: []string{"init"}, Active: true})
	sample := func(container string, cpu int64, after time.Duration) Result {
		return cluster.AddSample(Sample{Pod: id, Container: container, At: at.Add(after), CPU: cpu, Memory: 1})
	}
	require.Equal(t, Result{Known: true, CPU: true, Memory: true}, sample("a", 1, 0))
	require.Equal(t, Result{Known: true, Memory: true}, sample("a", 1, 0), "the same time twice counts for memory only")
	require.Equal(t, Result{Known: true}, sample("a", 1, -time.Minute))
	require.Equal(t, Result{Known: true, Memory: true}, sample("a", -1, time.Minute))
	require.Equal(t, Result{Known: true}, sample("init", 1, time.Minute), "init containers are dropped")
	require.Equal(t, Result{}, sample("other", 1, time.Minute))
	require.Equal(t, Result{}, cluster.AddSample(Sample{Pod: PodID{Name: "other"}, Container: "a", At: at}))
}

func TestAViewFollowsLabelsAndOutlivesPods(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cluster := NewCluster(DefaultSettings())
	id := PodID{Namespace: "ns", Name: "p"}
	spec := PodSpec{Labels: map[string]string{"app": "x"}, Containers: []string{"a"}, Active: true}
	cluster.SetPod(id, spec)
	cluster.AddSample(Sample{Pod: id, Container: "a", At: at, CPU: 100, Memory: 1e8})
	selector := labels.SelectorFromSet(labels.Set{"app": "x"})

	containers, pods := cluster.View("ns", selector)
	require.Equal(t, 1, pods)
	require.Equal(t, 1, containers["a"].Samples)
	_, pods = cluster.View("elsewhere", selector)
	require.Zero(t, pods)

	spec.Labels = map[string]string{"app": "y"}
	cluster.SetPod(id, spec)
	containers, pods = cluster.View("ns", selector)
	require.Zero(t, pods, "the pod moved on")
	require.Equal(t, 1, containers["a"].Samples, "its usage did not")

	cluster.KeepPods(map[PodID]bool{})
	require.Equal(t, 2, cluster.Aggregates())
	cluster.CollectGarbage(at.Add(time.Hour))
	require.Equal(t, 1, cluster.Aggregates(), "the aggregate without samples and pods is dropped")
	cluster.CollectGarbage(at.Add(8*24*time.Hour - 1))
	require.Equal(t, 1, cluster.Aggregates())
	cluster.CollectGarbage(at.Add(8 * 24 * time.Hour))
	require.Zero(t, cluster.Aggregates(), "usage expires after eight windows")
}

func TestAnExpiredAggregateOfALivePodStartsAfresh(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cluster := NewCluster(DefaultSettings())
	id := PodID{Namespace: "ns", Name: "p"}
	cluster.SetPod(id, PodSpec{Containers: []string{"a"}, Active: true})
	cluster.AddSample(Sample{Pod: id, Container: "a", At: at, CPU: 1})
	cluster.CollectGarbage(at.Add(9 * 24 * time.Hour))
	cluster.AddSample(Sample{Pod: id, Container: "a", At: at.Add(9 * 24 * time.Hour), CPU: 1})
	containers, _ := cluster.View("ns", labels.Everything())
	require.Equal(t, 1, containers["a"].Samples)
}
