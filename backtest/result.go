package backtest

import "time"

// Report is the outcome of a backtest.
type Report struct {
	Window   Window   `json:"window"`
	Prices   *Prices  `json:"prices,omitempty"`
	Policies []Policy `json:"policies"` // in the order they were asked for, baselines first
	// Choice is what was chosen of the policies; nil = nothing was to be chosen. The report is then about the first part of the
	// history.
	Choice *Choice `json:"choice,omitempty"`
	// Modelled says what the replay assumes, and what cannot be known.
	Modelled []string `json:"modelled"`
}

// Window is the time that is replayed: from the first sample to the last.
type Window struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Seconds int64     `json:"seconds"`
}

// Prices are those of requested resources, in any currency.
type Prices struct {
	CoreHour float64 `json:"coreHour"`
	GiBHour  float64 `json:"gibHour"`
}

// The names of policies that are no folders of rules.
const (
	Manifest  = "manifest"  // requests stay as the manifests have them
	Upstream  = "upstream"  // the shipped rules with upstream's defaults, without overlays
	Hindsight = "hindsight" // the least constant request that usage never exceeds, known in advance
	Shipped   = "shipped"   // the shipped rules with the flags and overlays in force
)

// Policy is what one policy would have done.
type Policy struct {
	Name string `json:"name"`
	// SameAs names an earlier policy that decides alike for every VPA, so that it ran once for both.
	SameAs string `json:"sameAs,omitempty"`
	// Params are those of a sweep, by ruleset.param.
	Params map[string]string `json:"params,omitempty"`
	// Enforces names the overlays in mode Audit or Warn that count as enforced in this policy.
	Enforces []string `json:"enforces,omitempty"`
	Implicit bool     `json:"-"` // nobody asked for it
	// Pareto: no other policy is at least as good in footprint, OOMs, evictions and CPU time over request, and
	// better in one. Policy hindsight neither has it nor counts: it cannot be had.
	Pareto     bool        `json:"pareto"`
	Containers []Container `json:"containers"` // by namespace, workload and container
	Workloads  []Workload  `json:"workloads"`  // by namespace and name
	Fleet      Fleet       `json:"fleet"`
	Classes    []Class     `json:"classes,omitempty"` // by name; only if there is to be a choice
}

// Class is the sum of the workloads of a class.
type Class struct {
	Name      string `json:"name"`
	Workloads int    `json:"workloads"`
	Measures
}

// Container is about the containers of one name of a workload, all pods together.
type Container struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Kind      string `json:"kind"` // of the workload
	Container string `json:"container"`
	Measures
	Series *Series `json:"series,omitempty"` // only if asked for
}

// Workload is the sum of its containers. Evictions and resizes of a pod count once.
type Workload struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Kind      string `json:"kind"`
	VPA       string `json:"vpa,omitempty"` // that controls its pods; empty = none
	// NeverUpdated says why none of its pods was ever evicted or resized although a VPA controls them;
	// nil = pods were, or nothing stood in the way.
	NeverUpdated *Obstacle `json:"neverUpdated,omitempty"`
	Measures
}

// Obstacle is a decision that leaves pods as they are until somebody changes something.
type Obstacle struct {
	Rule   string `json:"rule"`   // set/rule
	Reason string `json:"reason"` // in words
}

// Fleet is the sum of all workloads, and how containers are spread.
type Fleet struct {
	Measures
	Workloads         int `json:"workloads"`
	WorkloadsWithOOMs int `json:"workloadsWithOOMs"`
	// EvictionsPerWorkloadDay and ResizesPerWorkloadDay are means over workloads with a VPA.
	EvictionsPerWorkloadDay float64 `json:"evictionsPerWorkloadDay"`
	ResizesPerWorkloadDay   float64 `json:"resizesPerWorkloadDay"`
	Spread                  Spread  `json:"spread"`
}

// Measures are the figures of a container, a workload or the fleet. docs/backtest.md defines them.
type Measures struct {
	CPU       CPU    `json:"cpu"`
	Memory    Memory `json:"memory"`
	OOMs      int    `json:"ooms"`
	Evictions int    `json:"evictions"`
	Resizes   int    `json:"resizes"`
	// FirstRecommendationSeconds is the time from the first sample to the first recommendation, the
	// longest of several; null without one.
	FirstRecommendationSeconds *int64 `json:"firstRecommendationSeconds"`
	// AdaptSeconds are how long usage stayed above a request until the request was raised to it.
	AdaptSeconds Times `json:"adaptSeconds"`
	// Flaps counts changes of a request that undo the direction of the one before within a day.
	Flaps int `json:"flaps"`
	// ObservedSeconds is the time for which usage is known, all pods together.
	ObservedSeconds float64 `json:"observedSeconds"`
	// Cost is that of the requests; null without prices.
	Cost *float64 `json:"cost,omitempty"`
}

// CPU are the figures about CPU, in cores.
type CPU struct {
	SlackMean            float64 `json:"slackMean"`
	SlackShare           float64 `json:"slackShare"` // of what is requested while usage is known
	OverRequestShare     float64 `json:"overRequestShare"`
	ThrottledCoreSeconds float64 `json:"throttledCoreSeconds"`
	RequestedCoreHours   float64 `json:"requestedCoreHours"`
	UsedCoreHours        float64 `json:"usedCoreHours"`
}

// Memory are the figures about memory.
type Memory struct {
	SlackMeanBytes    float64 `json:"slackMeanBytes"`
	SlackShare        float64 `json:"slackShare"`
	OverRequestShare  float64 `json:"overRequestShare"`
	RequestedGiBHours float64 `json:"requestedGiBHours"`
	UsedGiBHours      float64 `json:"usedGiBHours"`
}

// Times are the middle, the 95th percentile and the longest of some times, in seconds.
type Times struct {
	Count int   `json:"count"`
	P50   int64 `json:"p50"`
	P95   int64 `json:"p95"`
	Worst int64 `json:"worst"`
}

// Spread is how the containers of a fleet differ.
type Spread struct {
	CPUSlackShare         Quantiles `json:"cpuSlackShare"`
	MemorySlackShare      Quantiles `json:"memorySlackShare"`
	CPUOverRequestShare   Quantiles `json:"cpuOverRequestShare"`
	MemOverRequestShare   Quantiles `json:"memoryOverRequestShare"`
	ThrottledCoreSeconds  Quantiles `json:"throttledCoreSeconds"`
	OOMs                  Quantiles `json:"ooms"`
	EvictionsPerDay       Quantiles `json:"evictionsPerDay"`
	FirstRecommendationIn Quantiles `json:"firstRecommendationSeconds"`
}

// Quantiles are the middle, the 95th percentile and the worst of containers.
type Quantiles struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	Worst float64 `json:"worst"`
}
