package facts

import (
	"strings"

	"github.com/celvpa/celvpa/engine"
)

// PodReview is what admission makes of a pod.
type PodReview struct {
	Violations []engine.Violation // of pod.validate; those that could not be judged refuse nothing
	Change     PodChange          // what it is given; of a new pod only where it is not refused, and a VPA changes it
	Failed     []*engine.RuleError
}

// ReviewPod asks all that admission asks about a pod once it is known which VPA, if any, changes it. It is the one place for that:
// the webhook asks it of new pods, and the updater of running ones, so that no pod is evicted which would not come back. Without a
// VPA nothing is changed.
func ReviewPod(plan *engine.Plan, in PodInput, trace *engine.Trace) (out PodReview) {
	out.Violations = ValidatePod(plan, in.Pod, in.Limits, in.VPA != nil)
	if in.VPA == nil || in.Creating && out.Refused() {
		return out
	}
	out.Change, out.Failed = ResourcesForPod(plan, in, trace)
	return out
}

// Refused reports whether the pod may not be created.
func (r *PodReview) Refused() bool { return r.Refusal() != "" }

// Refusal is why the pod may not be created, in words; empty = it may.
func (r *PodReview) Refusal() string {
	var why []string
	for _, v := range r.Violations {
		if !v.Failed {
			why = append(why, strings.TrimPrefix(v.Path+": "+v.Message, ": "))
		}
	}
	return strings.Join(why, "; ")
}
