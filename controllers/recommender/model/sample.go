package model

import "time"

// Resource is what a sample is about.
type Resource uint8

// The resources of which usage is remembered.
const (
	CPU    Resource = iota // milli-cores
	Memory                 // bytes
)

// OOM is a container that was killed, or whose pod was evicted, because it ran out of memory.
type OOM struct {
	Pod       PodID
	Container string
	Memory    int64 // bytes used or requested; 0 when not known
	At        time.Time
}
