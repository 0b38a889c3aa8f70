package answers

import "time"

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
