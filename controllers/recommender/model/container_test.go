package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
)

var noon = time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)

// memoryOf is a container of which memory samples are fed by hand.
func memoryOf(w facts.Window) (*container, func(bytes int64, after time.Duration, oom bool) Taken) {
	c := &container{aggregate: newAggregate(facts.DefaultWindow(), noon)}
	c.aggregate.Window = w
	return c, func(bytes int64, after time.Duration, oom bool) Taken {
		if taken := c.judgeSample(Sample{Resource: Memory, Amount: bytes, At: noon.Add(after)}); taken != Accepted && !oom {
			return taken
		}
		c.addMemory(bytes, noon.Add(after), oom)
		return Accepted
	}
}

// above is what a percentile says of a value: the upper edge of its bucket.
func above(bytes float64) float64 { return memoryBuckets.start(memoryBuckets.find(bytes) + 1) }

// TestMemoryWindowsAreUpstreams follows the trace of UPSTREAM.md §2.22.
func TestMemoryWindowsAreUpstreams(t *testing.T) {
	c, add := memoryOf(facts.DefaultWindow())
	steps := []struct {
		bytes       int64
		after       time.Duration
		oom         bool
		peak, made  int64
		windowEnd   time.Duration
		whatHappens string
	}{
		{1e9, 0, false, 1e9, 0, 24 * time.Hour, "the first sample opens a window"},
		{12e8, time.Minute, true, 1e9, 12e8, 24 * time.Hour, "an OOM takes the place of the peak in the histogram"},
		{11e8, 2 * time.Minute, false, 1e9, 12e8, 24 * time.Hour, "a sample below what was made up changes nothing"},
		{13e8, 3 * time.Minute, false, 13e8, 12e8, 24 * time.Hour, "one above it does"},
		{5e8, 25 * time.Hour, false, 5e8, 0, 48 * time.Hour, "the next window"},
		{5e8, 100 * time.Hour, false, 5e8, 0, 120 * time.Hour, "windows without samples are passed over"},
	}
	for _, s := range steps {
		require.Equal(t, Accepted, add(s.bytes, s.after, s.oom), s.whatHappens)
		require.Equal(t, s.peak, c.memoryPeak, s.whatHappens)
		require.Equal(t, s.made, c.oomPeak, s.whatHappens)
		require.Equal(t, noon.Add(s.windowEnd), c.windowEnd, s.whatHappens)
	}
	require.Equal(t, above(13e8), c.aggregate.Memory.Percentile(1), "closed windows stay")
	require.InDelta(t, above(5e8), c.aggregate.Memory.Percentile(0.5), 1, "each counts once, the latest most")
}

func TestMemorySamplesThatAreRefused(t *testing.T) {
	_, add := memoryOf(facts.DefaultWindow())
	require.Equal(t, Accepted, add(1e9, time.Minute, false))
	require.Equal(t, Accepted, add(2e9, time.Minute, false), "two of the same time")
	require.Equal(t, Old, add(3e9, 0, false))
	require.Equal(t, Negative, add(-1, 2*time.Minute, false))
	require.Equal(t, Accepted, add(3e9, 0, true), "an OOM may be older than the last sample")
}

// TestHazard12AFirstSampleOfZeroNeedNotHideTheOthers: UPSTREAM.md Appendix B 12.
func TestHazard12AFirstSampleOfZeroNeedNotHideTheOthers(t *testing.T) {
	c, add := memoryOf(facts.DefaultWindow())
	add(0, 0, false)
	add(1e9, time.Minute, false)
	require.Equal(t, memoryBuckets.start(1), c.aggregate.Memory.Percentile(1), "as upstream: hidden for a day")

	w := facts.DefaultWindow()
	w.ZeroIsPeak = false
	c, add = memoryOf(w)
	add(0, 0, false)
	require.True(t, c.aggregate.Memory.IsEmpty(), "nothing was seen yet")
	add(1e9, time.Minute, false)
	require.Equal(t, above(1e9), c.aggregate.Memory.Percentile(0))
	add(2e9, 2*time.Minute, false)
	require.Equal(t, above(2e9), c.aggregate.Memory.Percentile(0), "the peak is replaced, not joined")
	add(0, 30*time.Hour, false)
	add(3e9, 31*time.Hour, false)
	require.Equal(t, above(3e9), c.aggregate.Memory.Percentile(1), "in the next window too")
}

func TestAWindowMayBeShorter(t *testing.T) {
	w := facts.DefaultWindow()
	w.Interval = time.Hour
	c, add := memoryOf(w)
	add(1e9, 0, false)
	add(1e9, 90*time.Minute, false)
	require.Equal(t, noon.Add(2*time.Hour), c.windowEnd)
	require.True(t, c.tooOld(noon.Add(29*time.Minute), w.Interval))
	require.False(t, c.tooOld(noon.Add(30*time.Minute), w.Interval))
	require.Equal(t, 8*time.Hour, w.Length())
	w.Count = 1 << 62
	require.Greater(t, w.Length(), 100*365*24*time.Hour, "lengths do not wrap around")
}
