package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
)

func quarter() facts.Window {
	w := facts.DefaultWindow()
	w.Recent = 15 * time.Minute
	return w
}

func TestTheLastSamplesAreKeptForTheirTime(t *testing.T) {
	c := NewCluster(UnusedGrace)
	c.SetWindow(quarter())
	w := aWorkload(c, "v", "x", 0)
	one, other := aPod(c, "one", "x", "a"), aPod(c, "other", "x", "a")
	add := func(pod PodID, minute int, cpu, memory int64) facts.Recent {
		at := day.Add(time.Duration(minute) * time.Minute)
		c.AddSample(Sample{Pod: pod, Container: "a", Resource: CPU, Amount: cpu, At: at}, at)
		c.AddSample(Sample{Pod: pod, Container: "a", Resource: Memory, Amount: memory, At: at}, at)
		return w.View().Containers[0].Recent()
	}
	require.Equal(t, facts.Recent{Peak: facts.Amounts{CPU: 900, Memory: 70}}, add(one, 0, 900, 70))
	require.Equal(t, facts.Recent{Peak: facts.Amounts{CPU: 900, Memory: 80}, Known: 5 * time.Minute}, add(other, 5, 100, 80))
	require.Equal(t, facts.Recent{Peak: facts.Amounts{CPU: 900, Memory: 80}, Known: 15 * time.Minute}, add(one, 15, 50, 10))
	require.Equal(t, facts.Recent{Peak: facts.Amounts{CPU: 100, Memory: 80}, Known: 15 * time.Minute}, add(one, 16, 50, 10))
	require.Equal(t, facts.Recent{Peak: facts.Amounts{CPU: 7, Memory: 8}, Known: 15 * time.Minute}, add(one, 3000, 7, 8), "a gap of days")
	seen := w.View().Clone()
	add(one, 3001, 500, 500)
	require.EqualValues(t, 7, seen.Containers[0].Recent().Peak.CPU, "a copy")

	moved := aPod(c, "moved", "x", "a", "nonce") // other labels, so another aggregate of the same workload
	require.EqualValues(t, 500, add(moved, 3002, 3, 3).Peak.CPU)

	c.SetWindow(facts.DefaultWindow())
	require.Zero(t, w.View().Containers[0].Recent(), "rules keep none any more")
}

func TestAnotherHalfLifeHoldsFromTheNewestSampleOn(t *testing.T) {
	slow, fast := facts.DefaultWindow(), facts.DefaultWindow()
	fast.CPUHalfLife, fast.MemoryHalfLife = time.Hour, time.Hour
	use := func(a *Aggregate, cpu int64, from, hours int) {
		for i := range hours * 60 {
			a.addCPU(cpu, day.Add(time.Duration(from)*time.Hour+time.Duration(i)*time.Minute))
		}
	}
	share := func(a *Aggregate, p float64) float64 { return a.CPU.Percentile(p) }
	a := newAggregate(slow, day)
	use(a, 1000, 0, 240)
	use(a, 100, 240, 24)
	before := []float64{share(a, .3), share(a, .5), share(a, .9)}
	a.Govern(fast, 1)
	require.Equal(t, before, []float64{share(a, .3), share(a, .5), share(a, .9)}, "what is known weighs the same")
	require.InDelta(t, 1, share(a, .9), 0.05)
	use(a, 100, 264, 8)
	require.InDelta(t, 0.1, share(a, .9), 0.02, "and shrinks at the new rate")

	again := newAggregate(fast, day)
	use(again, 1000, 0, 240)
	use(again, 100, 240, 24)
	a.Govern(slow, 2)
	require.InDelta(t, 0.1, share(again, .99), 0.02)

	both := newAggregate(slow, day) // a workload whose pods two VPAs govern
	both.merge(a)
	both.merge(again)
	require.InDelta(t, a.CPU.total+again.CPU.withHalfLife(slow.CPUHalfLife, again.last()).total, both.CPU.total, both.CPU.total*1e-9)
}

// TestACheckpointSaysItsHalfLife, so that the first start under another one forgets nothing.
func TestACheckpointSaysItsHalfLife(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	p := aPod(c, "p", "x", "a")
	for i := range 48 * 60 {
		at := day.Add(time.Duration(i) * time.Minute)
		c.AddSample(Sample{Pod: p, Container: "a", Resource: CPU, Amount: int64(1 + i%1000), At: at}, at)
	}
	now := day.Add(48 * time.Hour)
	from := stored(t, c, w, now)
	fast := facts.DefaultWindow()
	fast.CPUHalfLife, fast.MemoryHalfLife = time.Hour, time.Hour
	again := NewCluster(UnusedGrace)
	again.SetWindow(fast)
	back := aWorkload(again, "v", "x", 0)
	require.NoError(t, back.Restore(again.Window(), "a", &from, now))
	back.Governs(func(_ string, a *Aggregate) { a.Govern(fast, 1) })
	require.InDelta(t, w.View().Containers[0].CPU.Percentile(.5), back.View().Containers[0].CPU.Percentile(.5), 0.03)
	require.Equal(t, time.Hour, back.View().Containers[0].CPU.halfLife)
}
