package answers

import (
	"time"

	"github.com/celvpa/celvpa/engine"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Recommender is what the recommender knows about a VPA.
type Recommender struct {
	Process
	Known   bool   `json:"known"`             // this recommender serves the VPA
	Pods    int    `json:"pods"`              // that its target selects
	Problem string `json:"problem,omitempty"` // with its target
	// Frozen says why the recommendation stays as it is whatever usage is; empty = it does not.
	Frozen        string        `json:"frozen,omitempty"`
	Containers    []Container   `json:"containers,omitempty"`    // by name
	ContainersCut int           `json:"containersCut,omitempty"` // how many more there are
	PodSteps      []engine.Step `json:"podSteps,omitempty"`      // of the recommendation for the pod as a whole
	// Recommendation is what the recommender would write now.
	Recommendation *vpav1.RecommendedPodResources `json:"recommendation,omitempty"`
	LastCycle      *time.Time                     `json:"lastCycle,omitempty"` // end of the last finished one
	Decisions      []Decision                     `json:"decisions,omitempty"` // newest last
}

// Container is the usage of the containers of one name, and the way from it to the recommendation.
type Container struct {
	Name          string        `json:"name"`
	Present       bool          `json:"present"` // some pod has it now
	Samples       int           `json:"samples"` // of CPU
	MemorySamples int           `json:"memorySamples"`
	FirstSample   *time.Time    `json:"firstSample,omitempty"`
	LastSample    *time.Time    `json:"lastSample,omitempty"`
	Restored      bool          `json:"restored,omitempty"` // some of it comes from a checkpoint
	CPU           Usage         `json:"cpu"`
	Memory        Usage         `json:"memory"`
	Windows       []Window      `json:"windows,omitempty"`    // open memory windows, largest peak first
	WindowsCut    int           `json:"windowsCut,omitempty"` // how many more there are
	OOMs          []OOM         `json:"ooms,omitempty"`       // the last ones, newest last
	Steps         []engine.Step `json:"steps,omitempty"`      // from usage to the recommendation
}

// Usage is the distribution of one resource, as the rules see it.
type Usage struct {
	Percentiles []Percentile `json:"percentiles,omitempty"` // lowest first
	Last        string       `json:"last,omitempty"`        // newest sample of any pod, a quantity; of memory its window's peak
	// Falls says when the target drops if the usage of each pod stays as it was last: the next drop,
	// and the last one if that is another, for as long ahead as usage is remembered.
	Falls []Fall `json:"falls,omitempty"`
}

// Percentile is an upper bucket edge of a histogram.
type Percentile struct {
	Percent string `json:"percent"`        // e.g. 90
	Amount  string `json:"amount"`         // a quantity, before any rule
	Used    bool   `json:"used,omitempty"` // the first rule that set the target read it
}

// Fall is a future value of a target, and when it is reached.
type Fall struct {
	At     time.Time `json:"at"`
	Target string    `json:"target"` // a quantity
}

// Window is an open memory window of one pod, which is in no histogram of a checkpoint.
type Window struct {
	Pod  string    `json:"pod"`
	Peak string    `json:"peak"` // a quantity
	Ends time.Time `json:"ends"`
}

// OOM is an OOM kill, or an eviction for lack of memory, that the recommender saw, and what it made of it.
type OOM struct {
	Time     time.Time     `json:"time"`
	Pod      string        `json:"pod"`
	Outcome  string        `json:"outcome"`            // accepted, or why it does not count, as in the recommender's metrics
	Reported string        `json:"reported"`           // memory request or usage then, or its part of the pod's request, a quantity
	CountsAs string        `json:"countsAs,omitempty"` // the sample that stands for it, a quantity; empty = none
	Steps    []engine.Step `json:"steps,omitempty"`
}
