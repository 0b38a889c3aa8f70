package model

import "time"

// PodID names a pod.
type PodID struct {
	Namespace string
	Name      string
}

// Resource is what a sample is about.
type Resource uint8

// The resources of which usage is remembered.
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
	At        time.Time
	Late      bool // nobody saw it happen: it was told when its pod was seen for the first time, and may be long ago
}

// Taken says what became of a sample.
type Taken uint8

// What can become of a sample.
const (
	Accepted Taken = iota
	Unknown        // of a pod or container that is not known
	Init           // of an init container: their usage is not remembered (UPSTREAM.md §2.7)
	Negative       // less than nothing was used
	Old            // there are newer ones, or for CPU one of the same time
	Future         // from a clock that is far ahead
	Disabled       // an OOM that the rules give no meaning to
)

// Outcomes lists what can become of a sample, as metrics call it, by Taken.
var Outcomes = []string{"accepted", "unknown_container", "init_container", "negative", "old", "future", "disabled"}

// String is the outcome as metrics call it.
func (t Taken) String() string { return Outcomes[t] }
