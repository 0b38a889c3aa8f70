// Package answers defines what a process says about one VerticalPodAutoscaler: what it knows, what
// it would do now and why, and what it did last. The recommender, the updater and the admission
// controller fill these types, an endpoint of each process serves them as JSON, and `celvpa explain`
// reads them. Beside these types it holds the Log of last decisions.
package answers

import (
	"time"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Answer is what one process says: the parts that it runs.
type Answer struct {
	Recommender *Recommender `json:"recommender,omitempty"`
	Updater     *Updater     `json:"updater,omitempty"`
	Admission   *Admission   `json:"admission,omitempty"`
	Unknown     []string     `json:"unknown,omitempty"` // what the process could not say, and why
}

// Process says which process answers, and by which rules.
type Process struct {
	Component string    `json:"component"` // recommender, updater or admission-controller
	Instance  string    `json:"instance"`  // its host name, that of its pod in a cluster
	Version   string    `json:"version"`
	Leads     bool      `json:"leads"` // false: another replica decides, and the rest is empty
	Now       time.Time `json:"now"`
	Rules     Rules     `json:"rules"`
}

// Rules name the pipeline and the overlays by which a process decides about the VPA.
type Rules struct {
	Pipeline    string   `json:"pipeline"` // name@version
	Digest      string   `json:"digest"`
	Overlays    []string `json:"overlays,omitempty"` // enforced
	Audited     []string `json:"audited,omitempty"`  // evaluated, not enforced
	Unevaluated []string `json:"untried,omitempty"`  // why others that match cannot be evaluated
	Fault       string   `json:"fault,omitempty"`    // why the rules that the VPA asks for cannot be used
}

// Decision is what a process decided earlier about a VPA or one of its pods, and why.
type Decision struct {
	ID        string    `json:"id"` // hexadecimal; unique within the process
	Time      time.Time `json:"time"`
	Component string    `json:"component"`
	Pod       string    `json:"pod,omitempty"` // empty = about the VPA as a whole
	Action    string    `json:"action"`        // Recommend, Evict, InPlace, Wait, Skip, Admit, Refuse, …
	Rule      string    `json:"rule,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Changes   []string  `json:"changes,omitempty"` // e.g. container app: requests.cpu 100m → 25m
	Inputs    string    `json:"inputs"`            // digest of the facts that the rules saw
	Rules     string    `json:"rules"`             // digest of the rules
}

// Admission is what the admission controller did with the pods of a VPA last.
type Admission struct {
	Process
	Registered string     `json:"registered,omitempty"` // why this process has not registered the webhook yet; empty = it has, or leaves that to something else
	Reachable  *bool      `json:"reachable,omitempty"`  // false = the API server did not reach it twice in a row; nil = not known
	Expires    *time.Time `json:"expires,omitempty"`    // end of the serving certificate
	Admissions []Admitted `json:"admissions,omitempty"` // newest last
	Decisions  []Decision `json:"decisions,omitempty"`  // newest last
}

// Admitted is the answer to one review of a new pod.
type Admitted struct {
	Time    time.Time `json:"time"`
	Pod     string    `json:"pod"` // name, or generateName with %
	Allowed bool      `json:"allowed"`
	Message string    `json:"message,omitempty"` // why it was refused
	Updates string    `json:"updates,omitempty"` // its annotation vpaUpdates; empty = unchanged
}

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

// Updater is what the updater would do with the pods of a VPA, and what it remembers of them.
type Updater struct {
	Process
	// Ignored says why running pods are left alone, e.g. because of the update mode; empty = they are not.
	Ignored     string       `json:"ignored,omitempty"`
	IgnoredRule string       `json:"ignoredRule,omitempty"`
	NoAdmission string       `json:"noAdmission,omitempty"` // why evictions are paused; empty = admission is alive
	LastCycle   *time.Time   `json:"lastCycle,omitempty"`   // end of the last finished one
	NextCycle   *time.Time   `json:"nextCycle,omitempty"`   // start of the next one
	Pods        []RunningPod `json:"pods,omitempty"`        // in the order in which they are updated; those that it ignores come last
	MorePods    int          `json:"morePods,omitempty"`    // that Pods leaves out
	Groups      []Group      `json:"groups,omitempty"`      // by owner
	// FirstCycles is how many evictions --first-cycle-evictions leaves to the next cycle; nil = no limit.
	FirstCycles *int       `json:"firstCycles,omitempty"`
	Decisions   []Decision `json:"decisions,omitempty"` // newest last
}

// RunningPod is the plan for a pod, with what the updater remembers of it.
type RunningPod struct {
	PlannedPod
	Infeasible string `json:"infeasible,omitempty"` // what a resize asked for that the node could not give
	Postponed  string `json:"postponed,omitempty"`  // why the last cycle left it to the next: first-cycles, rate-limit or deadline
	Later      string `json:"later,omitempty"`      // why the next cycle would leave it to a later one: first-cycles or rate-limit
	// Evictions and Resizes are the consecutive refusals of the API server that are about this pod alone.
	Evictions *Refusals `json:"evictions,omitempty"`
	Resizes   *Refusals `json:"resizes,omitempty"`
}

// Group is the pods of one direct owner, such as a ReplicaSet.
type Group struct {
	Owner      string `json:"owner"`      // kind/name
	Configured int    `json:"configured"` // desired replicas; 0 = unknown
	Live       int    `json:"live"`
	Running    int    `json:"running"`
	Ready      int    `json:"ready"`
	Disrupted  int    `json:"disrupted"`
	// Evictions and Resizes are the consecutive refusals of the API server that are about all of its pods.
	Evictions *Refusals `json:"evictions,omitempty"`
	Resizes   *Refusals `json:"resizes,omitempty"`
	// Unchanged counts the consecutive evictions whose replacement kept its old resources.
	Unchanged int    `json:"unchanged,omitempty"`
	HeldBy    string `json:"heldBy,omitempty"` // rule that pauses evictions because of them
}

// Refusals counts consecutive refusals of the API server, with no success in between.
type Refusals struct {
	Times   int       `json:"times"`
	Last    time.Time `json:"last"`
	Message string    `json:"message,omitempty"` // of the API server
}
