package manifests

import (
	"regexp"
	"strings"
)

// The parts that Kubernetes makes names of pods from. Neither hashes nor identifiers have vowels, so that words do not look
// like them.
const (
	identifierLength = 5  // of the random end of a name
	generatedBase    = 58 // of the rest of it at most
	randomLetters    = "bcdfghjklmnpqrstvwxz2456789"
)

var (
	ordinal    = regexp.MustCompile(`^[0-9]{1,9}$`)
	scheduled  = regexp.MustCompile(`^[0-9]{6,12}(-[0-9]{1,9})?-$`)
	indexed    = regexp.MustCompile(`^[0-9]{1,9}-$`)
	revisioned = regexp.MustCompile(`^[` + randomLetters + `]{1,10}-$`)
	cutShort   = regexp.MustCompile(`^[` + randomLetters + `]{0,10}-?$`)
)

// NamesLike reports whether the workload would give a pod such a name: a Deployment name-hash-id, a StatefulSet name-number, a
// DaemonSet, ReplicaSet, ReplicationController or Job name-id, a Job also name-index-id, a CronJob name-time-id; a workload of
// a custom kind any of these.
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

// wouldName reports whether a Deployment would give a ReplicaSet such a name, name-hash, or a CronJob a Job, name-time.
func (w *Workload) wouldName(made string) bool {
	rest, begins := strings.CutPrefix(made, w.Name+"-")
	if w.Kind == "CronJob" {
		return begins && scheduled.MatchString(rest+"-")
	}
	return begins && revisioned.MatchString(rest+"-")
}

// BeginsLike reports whether the name of a pod is that of the workload, or begins with it.
func (w *Workload) BeginsLike(pod string) bool {
	return pod == w.Name || strings.HasPrefix(pod, w.Name+"-")
}

// counted: name-number.
func counted(name, pod string) bool {
	rest, ok := strings.CutPrefix(pod, name+"-")
	return ok && ordinal.MatchString(rest)
}

// identified: name-id.
func identified(name, pod string) bool {
	base, ok := withoutIdentifier(pod)
	want := name + "-"
	return ok && base == want[:min(len(want), generatedBase)]
}

// middle: name-something-id.
func middle(name, pod string, something *regexp.Regexp) bool {
	base, ok := withoutIdentifier(pod)
	rest, begins := strings.CutPrefix(base, name+"-")
	return ok && begins && something.MatchString(rest)
}

// revision: name-hash-id, of which a long name leaves less.
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

// withoutIdentifier is a name without its random end; false when it has none.
func withoutIdentifier(pod string) (string, bool) {
	at := len(pod) - identifierLength
	if at <= 0 || strings.Trim(pod[at:], randomLetters) != "" {
		return "", false
	}
	return pod[:at], true
}
