package backtest

import (
	"math"
	"strconv"
	"time"
)

// Series is what happened to a container over time, in steps of equal length.
type Series struct {
	StepSeconds int64   `json:"stepSeconds"`
	Steps       int     `json:"steps"`
	CPU         Lines   `json:"cpu"`    // cores
	Memory      Lines   `json:"memory"` // bytes
	Pods        []int   `json:"pods"`   // at the end of each step
	Events      []Event `json:"events"` // by time
	Cut         int     `json:"eventsCut,omitempty"`
	Causes      []Cause `json:"causes"` // of changes of the recommendation, by time
	CausesCut   int     `json:"causesCut,omitempty"`
}

// Lines are values at the steps of a series.
type Lines struct {
	Usage    Line `json:"usage"`    // mean of all pods in the step, as wanted
	UsageMax Line `json:"usageMax"` // largest sample of any pod in the step
	Request  Line `json:"request"`  // mean of the pods at the end of the step
	Limit    Line `json:"limit"`    // lowest of the pods at the end of the step
	Target   Line `json:"target"`   // of the recommendation at the end of the step
	Lower    Line `json:"lower"`
	Upper    Line `json:"upper"`
}

// Line is a value for each step, in JSON null where it is NaN: unknown or none.
type Line []float64

// MarshalJSON writes numbers and nulls.
func (l Line) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, value := range l {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(value) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, value, 'g', -1, 64)
		}
	}
	return append(out, ']'), nil
}

// EventType is what happened to a pod.
type EventType string

// The types of events.
const (
	Evicted EventType = "Evicted" // and replaced
	Resized EventType = "Resized" // in place
	OOMKill EventType = "OOM"
	Started EventType = "Started" // a pod that the history has from then on
	Ended   EventType = "Ended"   // a pod that the history has until then
)

// Event is something that happened to a pod.
type Event struct {
	At     time.Time `json:"at"`
	Type   EventType `json:"type"`
	Pod    string    `json:"pod"`
	Rule   string    `json:"rule,omitempty"`   // set/rule that decided
	Reason string    `json:"reason,omitempty"` // its text
	// CPU and Memory are what the request changed from and to, in cores and bytes; null = it did
	// not. Of an OOM, Memory is from the limit to the usage that exceeded it.
	CPU    *Change `json:"cpu,omitempty"`
	Memory *Change `json:"memory,omitempty"`
}

// Change is an amount before and after an event, in cores or bytes; null = not set.
type Change struct {
	From *float64 `json:"from"`
	To   *float64 `json:"to"`
}

// Cause says which rules made the target of a recommendation what it is, when it changes.
type Cause struct {
	At     time.Time `json:"at"`
	CPU    *Change   `json:"cpu,omitempty"`
	Memory *Change   `json:"memory,omitempty"`
	Rules  []string  `json:"rules"` // set/rule that set the target, in order
}
