package answers

import "time"

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
