package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
)

func TestAnExpiredAggregateOfALivePodStartsAfresh(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	c.AddSample(cpuAt(id, "a", 1, 0), day)
	later := 9 * 24 * time.Hour
	c.CollectGarbage(day.Add(later))
	aPod(c, "p", "x", "a")
	require.Empty(t, w.View().Containers, "without samples it would be recommended the minimum")
	c.SetWindow(facts.Window{CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour, Interval: time.Hour, Count: 1})
	require.Equal(t, Accepted, c.AddSample(cpuAt(id, "a", 1, later), day.Add(later)))
	require.Equal(t, 1, w.View().Containers[0].Samples)
	require.Equal(t, facts.DefaultWindow(), w.View().Containers[0].Window, "the window is that of before, as no policy said otherwise since")
}

// TestAnExpiredAggregateTakesThePeakOfItsWindowAlong: history may expire before its memory window ends,
// if windows were made shorter since that began. Memory that goes on below its peak was recommended the
// minimum until the window ended.
func TestAnExpiredAggregateTakesThePeakOfItsWindowAlong(t *testing.T) {
	const gib = 1 << 30
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	sample := func(bytes int64, at time.Duration) {
		require.Equal(t, Accepted, c.AddSample(memoryAt(id, "a", bytes, at), day.Add(at)))
	}
	sample(4*gib, 191*time.Hour)
	c.SetWindow(facts.Window{CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour, Interval: time.Hour, Count: 1})
	c.CollectGarbage(day.Add(193 * time.Hour))
	require.Zero(t, c.Aggregates())
	sample(2*gib, 194*time.Hour)
	require.InDelta(t, 2*gib, memoryIn(c, w).Percentile(0.9), gib/5)
	sample(3*gib, 195*time.Hour)
	sample(1*gib, 196*time.Hour)
	require.InDelta(t, 3*gib, memoryIn(c, w).Percentile(0.01), gib/5, "the window has one peak, and that is the highest")
	require.Equal(t, 3, w.View().Containers[0].MemorySamples)
}

// TestMemoryAloneIsHistory: a CronJob's pods may run out of memory before their first CPU sample, and a
// source may have memory alone. Such history ended with the pods, or eight days after it began.
func TestMemoryAloneIsHistory(t *testing.T) {
	const gib = 1 << 30
	for name, feed := range map[string]func(c *Cluster, id PodID, at time.Duration) Taken{
		"samples": func(c *Cluster, id PodID, at time.Duration) Taken {
			return c.AddSample(memoryAt(id, "a", gib, at), day.Add(at))
		},
		"OOM kills": func(c *Cluster, id PodID, at time.Duration) Taken {
			return c.AddOOM(OOM{Pod: id, Container: "a", Memory: gib, At: day.Add(at)}, day.Add(at), func(*Workload, int64, int64) (int64, bool) { return gib, true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCluster(UnusedGrace)
			w := aWorkload(c, "v", "x", 0)
			id := aPod(c, "p", "x", "a")
			for at := time.Duration(0); at <= 20*24*time.Hour; at += 12 * time.Hour {
				require.Equal(t, Accepted, feed(c, id, at))
				c.CollectGarbage(day.Add(at))
			}
			require.InDelta(t, gib, memoryIn(c, w).Percentile(0.9), gib/5, "with samples it never ends")
			c.KeepPods(nil)
			stored, _, ok := w.Checkpoint("a", day.Add(20*24*time.Hour))
			require.True(t, ok)
			const last = 28*24*time.Hour - 1
			c.CollectGarbage(day.Add(last))
			require.InDelta(t, gib, memoryIn(c, w).Percentile(0.9), gib/5, "it outlives its pods")

			again := NewCluster(UnusedGrace)
			restarted := aWorkload(again, "v", "x", 0)
			now := day.Add(21 * 24 * time.Hour)
			require.NoError(t, restarted.Restore(again.Window(), "a", &stored, now))
			_, err := restarted.Resume("a", &stored, facts.DefaultWindow(), now)
			require.NoError(t, err)
			again.Continue(now)
			again.CollectGarbage(day.Add(last))
			require.InDelta(t, gib, memoryIn(again, restarted).Percentile(0.9), gib/5, "a restart changes nothing")

			for _, cluster := range []*Cluster{c, again} {
				cluster.CollectGarbage(day.Add(last + 1))
			}
			require.Empty(t, w.View().Containers, "it ends eight days after the last sample")
			require.Empty(t, restarted.View().Containers)
		})
	}
}

// TestASampleThatIsRefusedBeginsNoHistory: the usage of the container has expired, and an empty history
// would be recommended the minimum.
func TestASampleThatIsRefusedBeginsNoHistory(t *testing.T) {
	c := NewCluster(UnusedGrace)
	window := facts.DefaultWindow()
	window.MaxCPU = 1000
	c.SetWindow(window)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	const last, later = 10 * time.Hour, 9 * 24 * time.Hour
	c.AddSample(cpuAt(id, "a", 100, last), day.Add(last))
	c.AddSample(memoryAt(id, "a", 1<<30, last), day.Add(last))
	c.CollectGarbage(day.Add(later))
	for taken, refused := range map[Taken]func() Taken{
		Old:         func() Taken { return c.AddSample(memoryAt(id, "a", 2<<30, 9*time.Hour), day.Add(later)) },
		Negative:    func() Taken { return c.AddSample(cpuAt(id, "a", -1, later), day.Add(later)) },
		Implausible: func() Taken { return c.AddSample(cpuAt(id, "a", 1001, later), day.Add(later)) },
		Future:      func() Taken { return c.AddSample(cpuAt(id, "a", 1, later+2*time.Hour), day.Add(later)) },
		Disabled: func() Taken {
			return c.AddOOM(OOM{Pod: id, Container: "a", Memory: 1 << 30, At: day.Add(later)}, day.Add(later), func(*Workload, int64, int64) (int64, bool) { return 0, false })
		},
	} {
		require.Equal(t, taken, refused())
		require.Empty(t, w.View().Containers, taken)
	}
}
