package model

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestACheckpointIsUpstreams holds the golden checkpoint of UPSTREAM.md §2.17.
func TestACheckpointIsUpstreams(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "c0")
	c.AddSample(cpuAt(id, "c0", 100, 0), day)
	c.AddSample(memoryAt(id, "c0", 200<<20, 0), day)
	c.KeepPods(nil) // the current window is over with its pod
	got, until, ok := w.Checkpoint("c0", day)
	require.True(t, ok)
	require.Zero(t, until)
	require.NotNil(t, got.Resume)
	got.Resume = nil // is celvpa's own
	require.Equal(t, vpav1.VerticalPodAutoscalerCheckpointStatus{
		Version: "v3", LastUpdateTime: metav1.NewTime(day), FirstSampleStart: metav1.NewTime(day), LastSampleStart: metav1.NewTime(day), TotalSamplesCount: 1,
		CPUHistogram:    vpav1.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(day), BucketWeights: map[string]uint32{"8": 10000}, TotalWeight: 0.1},
		MemoryHistogram: vpav1.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(day.Add(24 * time.Hour)), BucketWeights: map[string]uint32{"14": 10000}, TotalWeight: 1},
	}, got)

	id = aPod(c, "p", "x", "c0")
	c.AddSample(cpuAt(id, "c0", 100, time.Minute), day)
	got, _, _ = w.Checkpoint("c0", day)
	require.Equal(t, 0.20004814680772873, got.CPUHistogram.TotalWeight)
}

func TestTheWindowThatIsNotOverIsNotStored(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	p, q := aPod(c, "p", "x", "a"), aPod(c, "q", "x", "a")
	c.AddSample(memoryAt(p, "a", 1e9, 0), day)
	c.AddSample(memoryAt(q, "a", 2e9, -time.Hour), day)
	got, until, _ := w.Checkpoint("a", day)
	require.Empty(t, got.MemoryHistogram.BucketWeights)
	require.Zero(t, got.MemoryHistogram.TotalWeight)
	require.Equal(t, day.Add(23*time.Hour), until, "when the first of them is over")
	got, until, _ = w.Checkpoint("a", until)
	require.Len(t, got.MemoryHistogram.BucketWeights, 1)
	require.Equal(t, day.Add(24*time.Hour), until)
	require.Equal(t, above(2e9), w.View().Containers[0].Memory.Percentile(1), "writing changed nothing")
}

func TestHistoryComesBackFromACheckpoint(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	for i := range 3000 {
		at := time.Duration(i) * time.Minute
		c.AddSample(cpuAt(id, "a", int64(i), at), day.Add(at))
		c.AddSample(memoryAt(id, "a", int64(i)<<20, at), day.Add(at))
	}
	now := day.Add(3000 * time.Minute)
	stored, _, _ := w.Checkpoint("a", now)
	text, err := json.Marshal(stored)
	require.NoError(t, err)
	var read vpav1.VerticalPodAutoscalerCheckpointStatus
	require.NoError(t, json.Unmarshal(text, &read))

	again := NewCluster(UnusedGrace)
	back := aWorkload(again, "v", "x", 0)
	require.NoError(t, back.Restore(again.Window(), "a", &read, now))
	want, got := w.View().Containers[0], back.View().Containers[0]
	require.Equal(t, want.Samples, got.Samples)
	require.True(t, want.FirstSample.Equal(got.FirstSample) && want.LastSample.Equal(got.LastSample))
	for _, p := range []float64{0.5, 0.9, 0.95} {
		require.Equal(t, want.CPU.Percentile(p), got.CPU.Percentile(p))
	}
	require.Zero(t, back.Revision("a"), "what was read need not be written")
	once, _, _ := back.Checkpoint("a", now)
	require.Equal(t, stored.CPUHistogram.BucketWeights, once.CPUHistogram.BucketWeights, "and would be the same")
	require.Equal(t, stored.MemoryHistogram.BucketWeights, once.MemoryHistogram.BucketWeights)
}

// TestIssue7726ARestoredHistogramIsNotEmpty: rounding may leave less than nothing in the first
// bucket (UPSTREAM.md §2.17).
func TestIssue7726ARestoredHistogramIsNotEmpty(t *testing.T) {
	h := NewCPUHistogram(24 * time.Hour)
	require.NoError(t, h.restore(&vpav1.HistogramCheckpoint{BucketWeights: map[string]uint32{"0": 1, "9": 10000}, TotalWeight: 0.9}, day))
	require.False(t, h.IsEmpty())
	require.Equal(t, cpuBuckets.start(10), h.Percentile(0.9))
}

func TestBrokenCheckpointsAreRefused(t *testing.T) {
	good := func() vpav1.VerticalPodAutoscalerCheckpointStatus {
		return vpav1.VerticalPodAutoscalerCheckpointStatus{
			Version: "v3", FirstSampleStart: metav1.NewTime(day), LastSampleStart: metav1.NewTime(day.Add(time.Hour)), TotalSamplesCount: 3,
			CPUHistogram: vpav1.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(day), BucketWeights: map[string]uint32{"8": 10000}, TotalWeight: 0.3},
		}
	}
	for _, tt := range []struct {
		want  string
		spoil func(*vpav1.VerticalPodAutoscalerCheckpointStatus)
	}{
		{`status.version is "v4"; this celvpa reads "v3"`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) { s.Version = "v4" }},
		{`status.totalSamplesCount is -1`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) { s.TotalSamplesCount = -1 }},
		{`status.totalSamplesCount is 9223372036854775807`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) { s.TotalSamplesCount = math.MaxInt }},
		{`is before status.firstSampleStart`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) {
			s.LastSampleStart = metav1.NewTime(day.Add(-time.Hour))
		}},
		{`status.lastSampleStart 2100-01-01T00:00:00Z is far in the future`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) {
			s.LastSampleStart = metav1.NewTime(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
		}},
		{`status.lastSampleStart 2026-01-04T00:00:00Z is far in the future`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) {
			s.LastSampleStart = metav1.NewTime(day.Add(3 * 24 * time.Hour))
		}},
		{`status.cpuHistogram.referenceTimestamp 2027-01-01T00:00:00Z is far in the future`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) {
			s.CPUHistogram.ReferenceTimestamp = metav1.NewTime(day.Add(365 * 24 * time.Hour))
		}},
		{`status.cpuHistogram.totalWeight is -1`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) { s.CPUHistogram.TotalWeight = -1 }},
		{`status.cpuHistogram.totalWeight is 1e+300`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) { s.CPUHistogram.TotalWeight = 1e300 }},
		{`status.cpuHistogram.totalWeight is NaN`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) { s.CPUHistogram.TotalWeight = math.NaN() }},
		{`status.cpuHistogram.bucketWeights has a bucket "176"; there are 0 to 175`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) {
			s.CPUHistogram.BucketWeights = map[string]uint32{"176": 1}
		}},
		{`status.memoryHistogram.bucketWeights has a bucket "-1"`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) {
			s.MemoryHistogram.BucketWeights = map[string]uint32{"-1": 1}
		}},
		{`status.memoryHistogram.bucketWeights has a bucket "many"`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) {
			s.MemoryHistogram.BucketWeights = map[string]uint32{"many": 1}
		}},
		{`status.memoryHistogram.referenceTimestamp 2300-01-01T00:00:00Z is far in the future`, func(s *vpav1.VerticalPodAutoscalerCheckpointStatus) {
			s.MemoryHistogram.ReferenceTimestamp = metav1.NewTime(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC))
		}},
	} {
		t.Run(tt.want, func(t *testing.T) {
			c := NewCluster(UnusedGrace)
			w := aWorkload(c, "v", "x", 0)
			stored := good()
			require.NoError(t, w.Restore(c.Window(), "a", &stored, day.Add(time.Hour)))
			tt.spoil(&stored)
			require.ErrorContains(t, w.Restore(c.Window(), "a", &stored, day.Add(time.Hour)), tt.want)
			require.Equal(t, 3, w.View().Containers[0].Samples, "what was there stays")
		})
	}
}

// TestACheckpointOfALongerHalfLifeIsRead: its reference may be half of that in the future. All usage of the container was lost after
// --cpu-histogram-decay-half-life was lowered.
func TestACheckpointOfALongerHalfLifeIsRead(t *testing.T) {
	long := facts.DefaultWindow()
	long.CPUHalfLife = 7 * 24 * time.Hour
	now := day.Round(long.CPUHalfLife).Add(-80 * time.Hour)
	before := NewCluster(UnusedGrace)
	before.SetWindow(long)
	of := aWorkload(before, "v", "x", 0)
	require.Equal(t, Accepted, before.AddSample(Sample{Pod: aPod(before, "p", "x", "a"), Container: "a", Resource: CPU, Amount: 500, At: now}, now))
	from := stored(t, before, of, now)
	require.Greater(t, from.CPUHistogram.ReferenceTimestamp.Sub(now), 79*time.Hour)

	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	require.NoError(t, w.Restore(c.Window(), "a", &from, now))
	_, err := w.Resume("a", &from, facts.DefaultWindow(), now)
	require.NoError(t, err)
	usage := w.View().Containers[0]
	require.Equal(t, 1, usage.Samples)
	require.Equal(t, cpuBuckets.start(cpuBuckets.find(0.5)+1), usage.CPU.Percentile(0.9))
	id := aPod(c, "p", "x", "a")
	c.Continue(now)
	for i := range 48 {
		at := now.Add(time.Duration(i+1) * time.Hour)
		require.Equal(t, Accepted, c.AddSample(Sample{Pod: id, Container: "a", Resource: CPU, Amount: 100, At: at}, at))
	}
	require.Equal(t, cpuBuckets.start(cpuBuckets.find(0.1)+1), w.View().Containers[0].CPU.Percentile(0.5), "new samples count")
}

// What a checkpoint may say, and makes no sense, costs that container its history at most: what
// comes after it counts.
func TestAbsurdCheckpointsDoNotSpoilWhatComesAfterThem(t *testing.T) {
	old, ahead := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), day.Add(100*365*24*time.Hour)
	buckets := map[string]uint32{"0": math.MaxUint32, "9": math.MaxUint32, "100": 1}
	for name, histogram := range map[string]vpav1.HistogramCheckpoint{
		"buckets without weight":          {ReferenceTimestamp: metav1.NewTime(day), BucketWeights: buckets},
		"weight without buckets":          {ReferenceTimestamp: metav1.NewTime(day), TotalWeight: 1e40},
		"buckets of no weight":            {ReferenceTimestamp: metav1.NewTime(day), BucketWeights: map[string]uint32{"5": 0}, TotalWeight: 3},
		"a reference before all times":    {ReferenceTimestamp: metav1.NewTime(old), BucketWeights: buckets, TotalWeight: 1e42},
		"a reference of a century before": {ReferenceTimestamp: metav1.NewTime(day.Add(-100 * 365 * 24 * time.Hour)), BucketWeights: buckets, TotalWeight: 1e42},
		"buckets beyond 32 bits together": {ReferenceTimestamp: metav1.NewTime(day), BucketWeights: buckets, TotalWeight: 1e-300},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCluster(UnusedGrace)
			w := aWorkload(c, "v", "x", 0)
			require.NoError(t, w.Restore(c.Window(), "a", &vpav1.VerticalPodAutoscalerCheckpointStatus{Version: "v3", LastUpdateTime: metav1.NewTime(ahead),
				FirstSampleStart: metav1.NewTime(old), LastSampleStart: metav1.NewTime(day), TotalSamplesCount: 1, CPUHistogram: histogram, MemoryHistogram: histogram}, day))
			id := aPod(c, "p", "x", "a")
			for i := range 100 {
				at := time.Duration(i) * time.Minute
				require.Equal(t, Accepted, c.AddSample(cpuAt(id, "a", 500, at), day.Add(at)))
				c.AddSample(memoryAt(id, "a", 1<<30, at), day.Add(at))
			}
			view := w.View().Containers[0]
			for _, h := range []*Histogram{view.CPU, view.Memory} {
				p := h.Percentile(0.9)
				require.False(t, math.IsNaN(p) || math.IsInf(p, 0) || p < 0, "%v", p)
				require.False(t, math.IsNaN(h.total) || math.IsInf(h.total, 0) || h.total < 0, "%v", h.total)
				require.False(t, h.IsEmpty())
			}
			require.Equal(t, cpuBuckets.start(cpuBuckets.find(0.5)+1), view.CPU.Percentile(0.9), "what was measured")
			stored, _, ok := w.Checkpoint("a", day.Add(100*time.Minute))
			require.True(t, ok)
			_, err := json.Marshal(stored)
			require.NoError(t, err)
			require.NoError(t, w.Restore(c.Window(), "a", &stored, day.Add(100*time.Minute)), "what is written can be read")
			c.CollectGarbage(day.Add(9 * 24 * time.Hour))
			require.Zero(t, c.Aggregates())
			require.Empty(t, w.View().Containers, "and it expires")
		})
	}
}

// TestAWindowOfYearsSurvivesARestart: the peak is stamped with the end of its window, which a VPA may set
// to 11 years from now.
func TestAWindowOfYearsSurvivesARestart(t *testing.T) {
	c := NewCluster(UnusedGrace)
	c.SetWindow(facts.Window{CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour, Interval: 100000 * time.Hour, Count: 8})
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	c.AddSample(memoryAt(id, "a", 1<<30, 0), day)
	c.KeepPods(nil)
	stored, _, ok := w.Checkpoint("a", day)
	require.True(t, ok)
	again := NewCluster(UnusedGrace)
	restarted := aWorkload(again, "v", "x", 0)
	require.NoError(t, restarted.Restore(again.Window(), "a", &stored, day))
	require.Equal(t, memoryIn(c, w).Percentile(0.9), memoryIn(again, restarted).Percentile(0.9))
}
