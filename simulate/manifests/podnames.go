package manifests

import (
	"regexp"
	"strings"
)

// Parts of generated pod names, which have no vowels in hashes and identifiers.
const (
	identifierLength = 5  // random suffix
	generatedBase    = 58 // maximum of the rest
	randomLetters    = "bcdfghjklmnpqrstvwxz2456789"
)

var (
	ordinal    = regexp.MustCompile(`^[0-9]{1,9}$`)
	scheduled  = regexp.MustCompile(`^[0-9]{6,12}(-[0-9]{1,9})?-$`)
	indexed    = regexp.MustCompile(`^[0-9]{1,9}-$`)
	revisioned = regexp.MustCompile(`^[` + randomLetters + `]{1,10}-$`)
	cutShort   = regexp.MustCompile(`^[` + randomLetters + `]{0,10}-?$`)
)

// IsLong reports whether the pods of a workload may have only a part of its name.
func IsLong(workload string) bool { return len(workload)+len("-") > generatedBase }

// NamesLike reports whether the workload could name a pod so: Deployment name-hash-id; StatefulSet
// name-number; DaemonSet, ReplicaSet, ReplicationController and Job name-id; also Job
// name-index-id; CronJob name-time-id; custom kinds any of these.
func (w *Workload) NamesLike(pod string) bool {
	switch w.Kind {
	case "Deployment":
		return revision(w.Name, pod)
	case "StatefulSet":
		return counted(w.Name, pod)
	case "DaemonSet", "ReplicaSet", "ReplicationController":
		return identified(w.Name, pod)
	case "Job":
		return identified(w.Name, pod) || middle(w.Name, pod, indexed)
	case "CronJob":
		return middle(w.Name, pod, scheduled)
	}
	return revision(w.Name, pod) || counted(w.Name, pod) || identified(w.Name, pod)
}

// wouldName recognizes ReplicaSets of a Deployment, name-hash, and Jobs of a CronJob, name-time.
func (w *Workload) wouldName(made string) bool {
	rest, begins := strings.CutPrefix(made, w.Name+"-")
	if w.Kind == "CronJob" {
		return begins && scheduled.MatchString(rest+"-")
	}
	return begins && revisioned.MatchString(rest+"-")
}

// BeginsLike reports whether the pod's name is the workload's, or begins with it.
func (w *Workload) BeginsLike(pod string) bool {
	return pod == w.Name || strings.HasPrefix(pod, w.Name+"-")
}

// name-number
func counted(name, pod string) bool {
	rest, ok := strings.CutPrefix(pod, name+"-")
	return ok && ordinal.MatchString(rest)
}

// name-id
func identified(name, pod string) bool {
	base, ok := withoutIdentifier(pod)
	want := name + "-"
	return ok && base == want[:min(len(want), generatedBase)]
}

// name-something-id
func middle(name, pod string, something *regexp.Regexp) bool {
	base, ok := withoutIdentifier(pod)
	rest, begins := strings.CutPrefix(base, name+"-")
	return ok && begins && something.MatchString(rest)
}

// name-hash-id; a long name truncates the hash
func revision(name, pod string) bool {
	base, ok := withoutIdentifier(pod)
	if !ok {
		return false
	}
	want := name + "-"
	if len(want) >= generatedBase {
		return base == want[:generatedBase]
	}
	rest, begins := strings.CutPrefix(base, want)
	return begins && (revisioned.MatchString(rest) || (len(base) == generatedBase && cutShort.MatchString(rest)))
}

// withoutIdentifier cuts the random suffix; false without one.
func withoutIdentifier(pod string) (string, bool) {
	at := len(pod) - identifierLength
	if at <= 0 || strings.Trim(pod[at:], randomLetters) != "" {
		return "", false
	}
	return pod[:at], true
}
