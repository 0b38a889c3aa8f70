package model

import (
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
)

// cpuSampleWeight is the weight of every CPU sample (UPSTREAM.md §2.9).
const cpuSampleWeight = 0.1

// UnusedGrace is how long, unless a flag says otherwise, Tidy keeps the usage of pods that are gone while no
// workload selects their labels: as long as checkpoints that are not used.
const UnusedGrace = 10 * time.Minute

// Aggregate is the usage of all containers of one name in pods with the same labels, or of several
// such.
type Aggregate struct {
	CPU         *Histogram // cores
	Memory      *Histogram // bytes
	FirstSample time.Time  // of CPU
	LastSample  time.Time  // of CPU
	Samples     int        // of CPU

	// MemorySamples counts memory samples above 0 bytes, OOMs included. A checkpoint does not hold
	// the number; its memory counts as many samples as its CPU, and at least one. LastMemory is when
	// the newest of them was taken.
	MemorySamples int
	LastMemory    time.Time

	// Window applies to future samples. Govern changes it, and records the number of its source in
	// WindowFrom, 0 = none. It is not a pointer: a history outlives its VPA, and would keep the rules of
	// those days in memory.
	Window     facts.Window
	WindowFrom uint64

	created time.Time
	recent  *recent // nil = nothing is kept
}

func newAggregate(w facts.Window, created time.Time) *Aggregate {
	return &Aggregate{CPU: NewCPUHistogram(w.CPUHalfLife), Memory: NewMemoryHistogram(w.MemoryHalfLife), Window: w, created: created, recent: newRecent(w)}
}

// Govern sets the window of future samples, from a source with a number. Half-lives hold from the newest sample on.
func (a *Aggregate) Govern(w facts.Window, from uint64) {
	if w.Recent != a.Window.Recent {
		a.recent = newRecent(w)
	}
	a.Window, a.WindowFrom = w, from
	a.CPU.setHalfLife(w.CPUHalfLife, a.last())
	a.Memory.setHalfLife(w.MemoryHalfLife, a.last())
}

// Recent are the largest of the last samples.
func (a *Aggregate) Recent() facts.Recent { return a.recent.facts() }

// addRecent keeps a sample among the last ones.
func (a *Aggregate) addRecent(sample facts.Amounts, at time.Time) {
	if a.recent != nil {
		a.recent.add(sample, at)
	}
}

func (a *Aggregate) addCPU(milli int64, at time.Time) {
	a.addRecent(facts.Amounts{CPU: milli}, at)
	a.CPU.Add(float64(milli)/1000, cpuSampleWeight, at)
	if at.After(a.LastSample) {
		a.LastSample = at
	}
	if a.FirstSample.IsZero() || at.Before(a.FirstSample) {
		a.FirstSample = at
	}
	a.Samples++
}

// merge adds the history of another aggregate, which stays unchanged.
func (a *Aggregate) merge(other *Aggregate) {
	a.CPU.Merge(other.CPU.withHalfLife(a.CPU.halfLife, other.last()))
	a.Memory.Merge(other.Memory.withHalfLife(a.Memory.halfLife, other.last()))
	if !other.FirstSample.IsZero() && (a.FirstSample.IsZero() || other.FirstSample.Before(a.FirstSample)) {
		a.FirstSample = other.FirstSample
	}
	if other.LastSample.After(a.LastSample) {
		a.LastSample = other.LastSample
	}
	a.LastMemory = latest(a.LastMemory, other.LastMemory)
	if a.recent != nil {
		a.recent.merge(other.recent)
	}
	a.Samples += other.Samples
	a.MemorySamples += other.MemorySamples
}

// known reports whether the aggregate holds any usage; nil holds none.
func (a *Aggregate) known() bool { return a != nil && (a.Samples > 0 || !a.LastMemory.IsZero()) }

// last is the time of the newest sample of either resource; zero without one.
func (a *Aggregate) last() time.Time { return latest(a.LastSample, a.LastMemory) }

// expired reports whether the last sample, or without one the start, is older than all windows
// together.
func (a *Aggregate) expired(now time.Time) bool {
	since := a.last()
	if !a.known() {
		since = a.created
	}
	return now.Sub(since) >= a.Window.Length()
}

// PodID names a pod.
type PodID struct {
	Namespace string
	Name      string
}

// Resource is what a sample is about.
type Resource uint8

// The resources whose usage is kept.
const (
	CPU    Resource = iota // milli-cores
	Memory                 // bytes
)

// String is the name that Kubernetes gives the resource.
func (r Resource) String() string {
	if r == Memory {
		return "memory"
	}
	return "cpu"
}

// Sample is one observation of one resource of one container.
type Sample struct {
	Pod       PodID
	Container string
	Resource  Resource
	Amount    int64 // milli-cores or bytes
	At        time.Time
}

// OOM is a container that was killed, or whose pod was evicted, because it ran out of memory.
type OOM struct {
	Pod       PodID
	Container string
	Memory    int64 // bytes used or requested; 0 when not known
	Share     int64 // bytes of the pod-level request that it alone can use without a request of its own; 0 if there are none
	At        time.Time
	Late      bool // found when its pod was first seen, so it may be long ago
}

// Taken is the outcome of a sample.
type Taken uint8

// The outcomes of samples.
const (
	Accepted    Taken = iota
	Unknown           // of an unknown pod or container
	Init              // of an init container: their usage is not kept (UPSTREAM.md §2.7)
	Negative          // a negative amount
	Old               // not newer than the last one; for memory, older or the same again
	Future            // from a clock that is far ahead
	Disabled          // an OOM that the rules ignore
	Implausible       // more than the rules accept
)

// Outcomes are the names of outcomes in metrics, by Taken.
var Outcomes = []string{"accepted", "unknown_container", "init_container", "negative", "old", "future", "disabled", "implausible"}

// String is the name of the outcome in metrics.
func (t Taken) String() string { return Outcomes[t] }
