// Package answers defines what a process says about one VerticalPodAutoscaler: what it knows, what
// it would do now and why, and what it did last. The recommender, the updater and the admission
// controller fill these types, an endpoint of each process serves them as JSON, and `celvpa explain`
// reads them. Beside these types it holds the Log of last decisions.
package answers

import "time"

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
