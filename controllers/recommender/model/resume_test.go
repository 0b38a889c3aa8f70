package model

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// stored is the checkpoint of container a of a workload, as it comes from the API server.
func stored(t *testing.T, c *Cluster, w *Workload, now time.Time) vpav1.VerticalPodAutoscalerCheckpointStatus {
	t.Helper()
	status, _, ok := w.Checkpoint("a", now)
	require.True(t, ok)
	text, err := json.Marshal(status)
	require.NoError(t, err)
	var out vpav1.VerticalPodAutoscalerCheckpointStatus
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// resumedCluster is a new process that has read a checkpoint of container a of workload v, of pods
// with the label app: x.
func resumedCluster(t *testing.T, from vpav1.VerticalPodAutoscalerCheckpointStatus, now time.Time) (*Cluster, *Workload) {
	t.Helper()
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	require.NoError(t, w.Restore(c.Window(), "a", &from, now))
	_, err := w.Resume("a", &from, facts.DefaultWindow(), now)
	require.NoError(t, err)
	return c, w
}

func memoryIn(c *Cluster, w *Workload) *Histogram { return w.View().Containers[0].Memory }

// TestAnOpenWindowGoesOnAfterARestart: its peak and its OOM count once, and so does the newest CPU
// sample.
func TestAnOpenWindowGoesOnAfterARestart(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	c.AddSample(cpuAt(id, "a", 100, 0), day)
	c.AddSample(memoryAt(id, "a", 3e9, 0), day)
	bump := func(*Workload, int64, int64) (int64, bool) { return 4e9, true }
	oom := OOM{Pod: id, Container: "a", Memory: 3e9, At: day.Add(time.Minute)}
	require.Equal(t, Accepted, c.AddOOM(oom, day.Add(time.Minute), bump))
	from := stored(t, c, w, day.Add(2*time.Minute))
	require.Empty(t, from.MemoryHistogram.BucketWeights, "upstream would count it twice")

	again, back := resumedCluster(t, from, day.Add(3*time.Minute))
	_, _, ok := back.Checkpoint("a", day)
	require.False(t, ok, "it would lack the window")
	aPod(again, "p", "x", "a")
	again.Continue(day.Add(3 * time.Minute))
	require.Equal(t, memoryIn(c, w).exact(), memoryIn(again, back).exact())
	require.Equal(t, w.View().Containers[0].MemorySamples, back.View().Containers[0].MemorySamples)
	require.Equal(t, Old, again.AddSample(cpuAt(id, "a", 100, 0), day.Add(3*time.Minute)))
	require.Equal(t, Old, again.AddOOM(oom, day.Add(3*time.Minute), bump), "the pod's status still shows it")
	require.Equal(t, 1, back.View().Containers[0].Samples)
	require.Zero(t, back.Revision("a"), "nothing needs to be written")
	for i, bytes := range []int64{1e9, 5e9, 2e9} {
		at := time.Duration(i+4) * time.Minute
		for _, cluster := range []*Cluster{c, again} {
			require.Equal(t, Accepted, cluster.AddSample(memoryAt(id, "a", bytes, at), day.Add(at)))
		}
	}
	require.Equal(t, above(5e9), memoryIn(again, back).Percentile(0))
	require.InDelta(t, memoryIn(c, w).total, memoryIn(again, back).total, 1e-9, "one sample a window")
	require.Equal(t, stored(t, c, w, day.Add(time.Hour)), stored(t, again, back, day.Add(time.Hour)))
}

// TestWeightsComeBackToTheBit: those of upstream's checkpoint are rounded, so a percentile that is near
// the edge of a bucket may move by a bucket.
func TestWeightsComeBackToTheBit(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	for i := range 3000 {
		at := time.Duration(i) * time.Minute
		c.AddSample(cpuAt(id, "a", int64(i%700), at), day.Add(at))
		c.AddSample(memoryAt(id, "a", int64(i)<<20, at), day.Add(at))
	}
	now := day.Add(3000 * time.Minute)
	from := stored(t, c, w, now)
	again, back := resumedCluster(t, from, now)
	want := w.View().Containers[0]
	require.Equal(t, want.CPU.exact(), back.View().Containers[0].CPU.exact())
	require.Equal(t, want.CPU.total, back.View().Containers[0].CPU.total)
	require.NoError(t, back.Restore(again.Window(), "a", &from, now))
	require.NotEqual(t, want.CPU.exact(), back.View().Containers[0].CPU.exact(), "the histogram alone is rounded")
}

// TestPodsThatAreGoneLeaveTheirPeaks: a window that was open belongs to history, once.
func TestPodsThatAreGoneLeaveTheirPeaks(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	c.AddSample(cpuAt(id, "a", 100, 0), day)
	c.AddSample(memoryAt(id, "a", 3e9, 0), day)
	from := stored(t, c, w, day)
	for name, created := range map[string]time.Time{"no such pod": {}, "a new pod of the name": day.Add(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			again, back := resumedCluster(t, from, day.Add(time.Hour))
			if !created.IsZero() {
				again.SetPod(id, PodSpec{Labels: map[string]string{"app": "x"}, Containers: []string{"a"}, Created: created}, day)
			}
			again.Continue(day.Add(time.Hour))
			require.Equal(t, above(3e9), memoryIn(again, back).Percentile(1))
			again.KeepPods(nil)
			c.KeepPods(nil)
			want, got := stored(t, c, w, day.Add(time.Hour)), stored(t, again, back, day.Add(time.Hour))
			require.Equal(t, want, got)
		})
	}
}

// TestCheckpointsOfManyPodsAreBounded: 1,000 pods make no large object, and no CPU sample counts
// twice.
func TestCheckpointsOfManyPodsAreBounded(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	for i := range 1000 {
		id := aPod(c, fmt.Sprintf("deployment-7d9c5b6f4-%04d", i), "x", "a")
		c.AddSample(cpuAt(id, "a", 100, time.Duration(i)*time.Second/100), day)
		c.AddSample(memoryAt(id, "a", 1e8*int64(i%500), 0), day)
	}
	from := stored(t, c, w, day.Add(time.Minute))
	require.Len(t, from.Resume.Pods, maxResumedPods)
	require.Equal(t, int64(1e8*499), *from.Resume.Pods[99].MemoryPeak, "those with the largest peaks")
	text, err := json.Marshal(from.Resume)
	require.NoError(t, err)
	require.Less(t, len(text), 20_000)
	require.Equal(t, stored(t, c, w, day.Add(time.Minute)), from, "the same state makes the same bytes")

	again, back := resumedCluster(t, from, day.Add(2*time.Minute))
	for i := range 1000 {
		aPod(again, fmt.Sprintf("deployment-7d9c5b6f4-%04d", i), "x", "a")
	}
	again.Continue(day.Add(2 * time.Minute))
	for i := range 1000 {
		id := PodID{"ns", fmt.Sprintf("deployment-7d9c5b6f4-%04d", i)}
		require.Equal(t, Old, again.AddSample(cpuAt(id, "a", 100, time.Duration(i)*time.Second/100), day.Add(2*time.Minute)))
		require.Equal(t, Accepted, again.AddSample(cpuAt(id, "a", 100, time.Minute), day.Add(2*time.Minute)))
	}
	require.Equal(t, 2000, back.View().Containers[0].Samples)
	require.Equal(t, above(1e8*451), memoryIn(again, back).Percentile(0.1), "the smallest of them")
}

// TestFaultyResumeIsIgnored: anybody who may write checkpoints may write it.
func TestFaultyResumeIsIgnored(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	for _, name := range []string{"p", "q"} {
		id := aPod(c, name, "x", "a")
		c.AddSample(cpuAt(id, "a", 100, 0), day)
		c.AddSample(memoryAt(id, "a", 3e9, 0), day)
	}
	now := day.Add(time.Hour)
	future := vpav1.NewInstant(now.Add(3 * time.Hour))
	type resume = vpav1.CheckpointResume
	for _, tt := range []struct {
		want  string
		spoil func(*resume)
	}{
		{"writtenAt 2026-01-01T01:00:00Z is not status.lastUpdateTime 2026-01-01T00:00:00Z: another program", func(r *resume) { r.WrittenAt = metav1.NewTime(now) }},
		{"memorySamples is -1", func(r *resume) { r.MemorySamples = -1 }},
		{"pods are 101; there are at most 100", func(r *resume) { r.Pods = make([]vpav1.CheckpointPod, 101) }},
		{"omittedCPUSample 2026-01-01T04:00:00Z is later than status.lastSampleStart", func(r *resume) { r.OmittedCPUSample = future }},
		{"pods[0].name is not a name", func(r *resume) { r.Pods[0].Name = "" }},
		{"pods[1].name does not come after", func(r *resume) { r.Pods[0].Name = "q" }},
		{"pods[0].cpuSample 2026-01-01T04:00:00Z is later than status.lastSampleStart", func(r *resume) { r.Pods[0].CPUSample = future }},
		{"pods[0].memorySample 2026-01-01T04:00:00Z is in the future", func(r *resume) { r.Pods[0].MemorySample = future }},
		{"pods[0].lastOOM 2026-01-01T04:00:00Z is in the future", func(r *resume) { r.Pods[0].LastOOM = future }},
		{"pods[0].memoryPeak and oomPeak are -1 and 0", func(r *resume) { r.Pods[0].MemoryPeak = new(int64(-1)) }},
		{"pods[0].windowEnd is missing", func(r *resume) { r.Pods[0].WindowEnd = nil }},
		{"pods[0].windowEnd 2025-12-31T00:00:00Z is before memorySample", func(r *resume) { r.Pods[0].WindowEnd = vpav1.NewInstant(day.Add(-24 * time.Hour)) }},
		{"pods[0].windowEnd 2026-02-01T00:00:00Z is far in the future", func(r *resume) { r.Pods[0].WindowEnd = vpav1.NewInstant(day.AddDate(0, 1, 0)) }},
		{"cpuWeights: 8 bytes are not 9 for each", func(r *resume) { r.CPUWeights = r.CPUWeights[1:] }},
		{"cpuWeights: bucket 176 after bucket -1", func(r *resume) { r.CPUWeights[0] = 176 }},
		{"cpuWeights: bucket 8 weighs NaN", func(r *resume) { copy(r.CPUWeights[1:], []byte{0x7f, 0xf8, 0, 0, 0, 0, 0, 1}) }},
		{"cpuWeights: bucket 8 weighs -", func(r *resume) { r.CPUWeights[1] |= 0x80 }},
		{"cpuWeights: they do not match bucketWeights", func(r *resume) { r.CPUWeights[0] = 9 }},
		{"memoryWeights: they do not match bucketWeights", func(r *resume) { r.MemoryWeights = r.CPUWeights }},
	} {
		t.Run(tt.want, func(t *testing.T) {
			from := stored(t, c, w, day)
			again, back := resumedCluster(t, from, now)
			require.NoError(t, back.Restore(again.Window(), "a", &from, now))
			tt.spoil(from.Resume)
			until, err := back.Resume("a", &from, facts.DefaultWindow(), now)
			require.ErrorContains(t, err, "status.resume."+tt.want)
			require.Zero(t, until)
			again.Continue(now)
			require.Equal(t, 2, back.View().Containers[0].Samples, "the histograms count")
			require.True(t, memoryIn(again, back).IsEmpty())
		})
	}
}

// TestMemoryOfTheFutureWeighsNoMoreThanThatOfAWindow: otherwise it would hide new samples until then.
func TestMemoryOfTheFutureWeighsNoMoreThanThatOfAWindow(t *testing.T) {
	from := &vpav1.VerticalPodAutoscalerCheckpointStatus{Version: "v3", FirstSampleStart: metav1.NewTime(day), LastSampleStart: metav1.NewTime(day),
		MemoryHistogram: vpav1.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(day.AddDate(5, 0, 0)), BucketWeights: map[string]uint32{"80": 10000}, TotalWeight: 1}}
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	require.NoError(t, w.Restore(c.Window(), "a", from, day))
	latest := LatestWindow(facts.DefaultWindow(), day)
	require.Equal(t, day.AddDate(5, 0, 0), w.LimitReference("a", latest).UTC())
	require.Zero(t, w.LimitReference("a", latest), "once")
	id := aPod(c, "p", "x", "a")
	for i := range 12 {
		at := time.Duration(i) * 24 * time.Hour
		c.AddSample(memoryAt(id, "a", 1e9, at), day.Add(at))
	}
	require.Equal(t, above(1e9), memoryIn(c, w).Percentile(0.5))
}

// TestAWindowThatWasLongerGoesOnAfterARestart: it ends later than all windows of today together. The resume of all
// containers was refused after --memory-aggregation-interval was lowered, and their targets fell.
func TestAWindowThatWasLongerGoesOnAfterARestart(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	c.AddSample(cpuAt(id, "a", 100, 0), day)
	c.AddSample(memoryAt(id, "a", 3e9, 0), day)
	now := day.Add(time.Hour)
	from := stored(t, c, w, now)

	short := facts.DefaultWindow()
	short.Interval = time.Hour
	again := NewCluster(UnusedGrace)
	again.SetWindow(short)
	back := aWorkload(again, "v", "x", 0)
	require.NoError(t, back.Restore(again.Window(), "a", &from, now))
	require.Zero(t, back.LimitReference("a", LatestWindow(short, now)))
	_, err := back.Resume("a", &from, short, now)
	require.NoError(t, err)
	aPod(again, "p", "x", "a")
	again.Continue(now)
	require.Equal(t, above(3e9), memoryIn(again, back).Percentile(0.9))
	require.Equal(t, Accepted, again.AddSample(memoryAt(id, "a", 1e9, 23*time.Hour), day.Add(23*time.Hour)))
	require.Equal(t, above(3e9), memoryIn(again, back).Percentile(0.1), "the window that was open has not ended")
}

// TestAWindowWithoutAPeakTakesNothingFromACheckpoint: with zeroIsPeak=false a first sample of 0 bytes
// is in no histogram, so there is nothing to leave out of the checkpoint.
func TestAWindowWithoutAPeakTakesNothingFromACheckpoint(t *testing.T) {
	c := NewCluster(UnusedGrace)
	window := facts.DefaultWindow()
	window.ZeroIsPeak = false
	c.SetWindow(window)
	w := aWorkload(c, "v", "x", 0)
	p, q := aPod(c, "p", "x", "a"), aPod(c, "q", "x", "a")
	c.AddSample(memoryAt(p, "a", 1e9, -25*time.Hour), day)
	before := stored(t, c, w, day).MemoryHistogram
	require.Positive(t, before.TotalWeight)
	c.AddSample(memoryAt(q, "a", 0, 0), day)
	require.Equal(t, before, stored(t, c, w, day).MemoryHistogram)
}

// TestSamplesFromBeforeTheCheckpointsAreReadCountOnce: the first of them may be in a checkpoint.
func TestSamplesFromBeforeTheCheckpointsAreReadCountOnce(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	c.AddSample(cpuAt(id, "a", 100, 0), day)
	c.AddSample(memoryAt(id, "a", 3e9, 0), day)
	from := stored(t, c, w, day)
	for name, first := range map[string]time.Duration{"the same sample": 0, "a later one": time.Minute} {
		t.Run(name, func(t *testing.T) {
			again := NewCluster(UnusedGrace)
			back := aWorkload(again, "v", "x", 0)
			aPod(again, "p", "x", "a")
			again.Unread = true
			for i := range 3 {
				at := first + time.Duration(i)*time.Minute
				require.Equal(t, Accepted, again.AddSample(cpuAt(id, "a", 100, at), day.Add(at)))
				require.Equal(t, Accepted, again.AddSample(memoryAt(id, "a", 1e9, at), day.Add(at)))
			}
			again.Unread = false
			now := day.Add(5 * time.Minute)
			require.NoError(t, back.Restore(again.Window(), "a", &from, now))
			_, err := back.Resume("a", &from, facts.DefaultWindow(), now)
			require.NoError(t, err)
			again.Continue(now)
			want := 3
			if first > 0 {
				want = 4
			}
			require.Equal(t, want, back.View().Containers[0].Samples)
			require.Equal(t, above(3e9), memoryIn(again, back).Percentile(0), "all of them belong to the window that was open")
		})
	}
}

// FuzzResume reads what anybody may have written. What comes after it counts.
func FuzzResume(f *testing.F) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	for i := range 2000 {
		at := time.Duration(i) * time.Minute
		c.AddSample(cpuAt(id, "a", int64(i), at), day.Add(at))
		c.AddSample(memoryAt(id, "a", int64(i)<<20, at), day.Add(at))
	}
	now := day.Add(2000 * time.Minute)
	good, _, _ := w.Checkpoint("a", now)
	text, err := json.Marshal(good)
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"version":"v3","resume":{"writtenAt":null,"pods":[{"name":"p","windowEnd":"2026-01-03T00:00:00Z","memoryPeak":9223372036854775807,"closed":true}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var from vpav1.VerticalPodAutoscalerCheckpointStatus
		if json.Unmarshal(text, &from) != nil {
			return
		}
		again := NewCluster(UnusedGrace)
		back := aWorkload(again, "v", "x", 0)
		if back.Restore(again.Window(), "a", &from, now) != nil {
			return
		}
		_, _ = back.Resume("a", &from, facts.DefaultWindow(), now)
		back.LimitReference("a", LatestWindow(facts.DefaultWindow(), now))
		aPod(again, "p", "x", "a")
		again.Continue(now)
		for i := range 30 {
			at := 2001*time.Minute + time.Duration(i)*time.Hour
			again.AddSample(cpuAt(id, "a", 500, at), day.Add(at))
			again.AddSample(memoryAt(id, "a", 1<<30, at), day.Add(at))
		}
		view := back.View().Containers[0]
		for _, h := range []*Histogram{view.CPU, view.Memory} {
			for _, p := range []float64{0.5, 0.9, h.Percentile(0.9), h.total} {
				require.False(t, math.IsNaN(p) || math.IsInf(p, 0) || p < 0, "%v", p)
			}
		}
		status, _, ok := back.Checkpoint("a", day.Add(2100*time.Hour))
		require.True(t, ok)
		_, err := json.Marshal(status)
		require.NoError(t, err)
	})
}
