package model

import (
	"time"
)

// cpuSampleWeight is the weight of every CPU sample (UPSTREAM.md §2.9).
const cpuSampleWeight = 0.1

// Settings fix how usage is remembered. The zero value is not usable; see DefaultSettings.
type Settings struct {
	CPUHalfLife    time.Duration
	MemoryHalfLife time.Duration
	MemoryInterval time.Duration // window of which one memory peak counts
	IntervalCount  int64         // windows after which history without new samples is dropped
}

// DefaultSettings are upstream's: half-lives and windows of 24 hours, 8 windows.
func DefaultSettings() Settings {
	return Settings{CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour, MemoryInterval: 24 * time.Hour, IntervalCount: 8}
}

// Aggregate is the usage of all containers of one name in pods with the same labels.
type Aggregate struct {
	CPU         *Histogram // cores
	Memory      *Histogram // bytes
	FirstSample time.Time  // of CPU
	LastSample  time.Time  // of CPU
	Samples     int        // of CPU
}

// NewAggregate returns one without samples.
func NewAggregate(s Settings) *Aggregate {
	return &Aggregate{CPU: NewCPUHistogram(s.CPUHalfLife), Memory: NewMemoryHistogram(s.MemoryHalfLife)}
}

func (a *Aggregate) addCPU(milli int64, at time.Time) {
	a.CPU.Add(float64(milli)/1000, cpuSampleWeight, at)
	if at.After(a.LastSample) {
		a.LastSample = at
	}
	if a.FirstSample.IsZero() || at.Before(a.FirstSample) {
		a.FirstSample = at
	}
	a.Samples++
}

// Merge adds the history of another aggregate, which is left as it is.
func (a *Aggregate) Merge(other *Aggregate) {
	a.CPU.Merge(other.CPU)
	a.Memory.Merge(other.Memory)
	if !other.FirstSample.IsZero() && (a.FirstSample.IsZero() || other.FirstSample.Before(a.FirstSample)) {
		a.FirstSample = other.FirstSample
	}
	if other.LastSample.After(a.LastSample) {
		a.LastSample = other.LastSample
	}
	a.Samples += other.Samples
}

// Container is what is known of one container of one pod between samples.
type Container struct {
	aggregate        *Aggregate
	lastCPUSample    time.Time
	lastMemorySample time.Time
	memoryPeak       int64
	windowEnd        time.Time
}

// addCPU accepts samples that are newer than the last one (UPSTREAM.md §2.9).
func (c *Container) addCPU(milli int64, at time.Time) bool {
	if milli < 0 || !at.After(c.lastCPUSample) {
		return false
	}
	c.aggregate.addCPU(milli, at)
	c.lastCPUSample = at
	return true
}

// addMemory keeps the peak of the current window in the histogram, stamped with the window's end (UPSTREAM.md §2.9).
func (c *Container) addMemory(bytes int64, at time.Time, interval time.Duration) bool {
	if bytes < 0 || at.Before(c.lastMemorySample) {
		return false
	}
	c.lastMemorySample = at
	if c.windowEnd.IsZero() {
		c.windowEnd = at
	}
	newPeak := false
	if at.Before(c.windowEnd) {
		if c.memoryPeak != 0 && bytes > c.memoryPeak {
			c.aggregate.Memory.Subtract(float64(c.memoryPeak), 1, c.windowEnd)
			newPeak = true
		}
	} else {
		c.windowEnd = c.windowEnd.Add(at.Sub(c.windowEnd).Truncate(interval) + interval)
		c.memoryPeak = 0
		newPeak = true
	}
	if newPeak {
		c.aggregate.Memory.Add(float64(bytes), 1, c.windowEnd)
		c.memoryPeak = bytes
	}
	return true
}
