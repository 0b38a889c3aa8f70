package facts

import (
	"strings"

	"github.com/celvpa/celvpa/engine"
)

// PodReview is the outcome of admission for a pod.
type PodReview struct {
	Violations []engine.Violation // from pod.validate; validations that fail to evaluate refuse nothing
	Change     PodChange          // empty if refused or if no VPA changes the pod
	Failed     []*engine.RuleError
}

// ReviewPod runs every admission rule for a pod: for new pods in the webhook, and in the updater so
// that no pod is evicted whose replacement would be refused. Without a VPA it changes nothing.
func ReviewPod(plan *engine.Plan, in PodInput, trace *engine.Trace) (out PodReview) {
	out.Violations = ValidatePod(plan, in.Pod, in.Limits, in.VPA != nil)
	if in.VPA == nil || in.Creating && out.Refused() {
		return out
	}
	out.Change, out.Failed = ResourcesForPod(plan, in, trace)
	return out
}

// Refused reports whether the pod must not be created.
func (r *PodReview) Refused() bool { return r.Refusal() != "" }

// Refusal returns why the pod must not be created, by the rules or by the API server; empty = allowed.
func (r *PodReview) Refusal() string {
	var why []string
	for _, v := range r.Violations {
		if !v.Failed {
			why = append(why, strings.TrimPrefix(v.Path+": "+v.Message, ": "))
		}
	}
	if r.Change.Refused != "" {
		why = append(why, r.Change.Refused)
	}
	return strings.Join(why, "; ")
}
