package model

import (
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
)

// container is the state of one container of one pod between samples.
type container struct {
	name             string
	requests, limits facts.Amounts
	aggregate        *Aggregate // nil after it expired, until the next sample
	expired          *Aggregate // whose window the next one takes over; nil = none did
	lastCPUSample    time.Time
	lastMemorySample time.Time
	lastCPU          int64 // the last sample; less than 0 = of before a restart, so it is not known
	lastMemory       int64 // the last sample that is no OOM; less than 0 as for CPU
	memoryPeak       int64 // of the current window, measured
	oomPeak          int64 // of the current window, of an OOM
	windowEnd        time.Time
	counted          bool // the histogram has the peak of the current window, which may be 0
	onlyOOM          bool // at lastMemorySample there was an OOM and no sample
	ooms             *judgedOOMs
	resumed          bool         // from a checkpoint
	early            *earlySample // nil = none
}

// judgedOOMs are the times of OOMs of a container that were judged.
type judgedOOMs struct {
	last   time.Time
	stored time.Time // the last of those before a restart, as a checkpoint says
}

// judged is the time of the last OOM that was judged, and of the last that was before a restart;
// zero = none was.
func (c *container) judged() (last, stored time.Time) {
	if c.ooms == nil {
		return last, stored
	}
	return c.ooms.last, c.ooms.stored
}

// judge records that an OOM was judged.
func (c *container) judge(at time.Time) {
	if c.ooms == nil {
		c.ooms = &judgedOOMs{}
	}
	c.ooms.last = latest(c.ooms.last, at)
}

// peak is what of the current window is in the histogram.
func (c *container) peak() int64 { return max(c.memoryPeak, c.oomPeak) }

// losePeak leaves the current memory window without a peak, as the aggregate that had it is another one
// now: the next sample becomes its peak.
func (c *container) losePeak() { c.memoryPeak, c.oomPeak, c.counted = 0, 0, false }

// judgeSample accepts CPU samples that are newer than the last one, and memory samples that are not
// older (UPSTREAM.md §2.9) nor the same again: the source then stands still.
func (c *container) judgeSample(s Sample) Taken {
	switch {
	case s.Amount < 0:
		return Negative
	case s.Resource == CPU && !s.At.After(c.lastCPUSample),
		s.Resource == Memory && s.At.Before(c.lastMemorySample),
		s.Resource == Memory && s.At.Equal(c.lastMemorySample) && !c.onlyOOM && (s.Amount == c.lastMemory || c.lastMemory < 0):
		return Old
	}
	return Accepted
}

// addCPU adds a sample that is accepted.
func (c *container) addCPU(milli int64, at time.Time) {
	c.aggregate.addCPU(milli, at)
	c.lastCPUSample, c.lastCPU = at, milli
}

// addMemory adds a sample that is accepted: it keeps the peak of the current window in the histogram,
// stamped with the window's end (UPSTREAM.md §2.9). changed reports whether the histogram did.
func (c *container) addMemory(bytes int64, at time.Time, oom bool) (changed bool) {
	c.onlyOOM = oom && (c.onlyOOM || !at.Equal(c.lastMemorySample))
	c.aggregate.addRecent(facts.Amounts{Memory: bytes}, at)
	changed = c.addPeak(bytes, at, oom)
	if !oom {
		c.lastMemory = bytes
	}
	if c.peak() > 0 { // a sample below the peak has no effect
		c.aggregate.MemorySamples++
		c.aggregate.LastMemory = latest(c.aggregate.LastMemory, at)
	}
	return changed
}

// addPeak adds to the current window, or begins the next.
func (c *container) addPeak(bytes int64, at time.Time, oom bool) (changed bool) {
	window := c.aggregate.Window
	c.lastMemorySample = at
	if c.windowEnd.IsZero() {
		c.windowEnd = at
	}
	if at.Before(c.windowEnd) {
		old := c.peak()
		if c.counted && (bytes <= old || old == 0 && window.ZeroIsPeak) {
			return false
		}
		if old != 0 {
			c.aggregate.Memory.Subtract(float64(old), 1, c.windowEnd)
		}
	} else {
		c.windowEnd = c.windowEnd.Add(at.Sub(c.windowEnd).Truncate(window.Interval) + window.Interval)
		c.losePeak()
	}
	if bytes == 0 && !window.ZeroIsPeak {
		return false
	}
	c.aggregate.Memory.Add(float64(bytes), 1, c.windowEnd)
	c.counted = true
	if oom {
		c.oomPeak = bytes
	} else {
		c.memoryPeak = bytes
	}
	return true
}

// tooOld reports whether an OOM happened more than a memory window before the last memory sample
// (UPSTREAM.md §2.10).
func (c *container) tooOld(oom time.Time, window time.Duration) bool {
	return !c.lastMemorySample.IsZero() && oom.Before(c.lastMemorySample.Add(-window))
}
