package model

import "time"

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
