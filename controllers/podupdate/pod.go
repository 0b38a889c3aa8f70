package podupdate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Request is a running pod and its circumstances.
type Request struct {
	Pod    *corev1.Pod
	VPA    *vpav1.VerticalPodAutoscaler
	Limits *facts.LimitRanges // of the pod's namespace; nil = none
	Now    time.Time
	// Template are the containers of its owner's pod template, of a boosted pod; nil = unknown.
	Template []corev1.Container
	// ResizeSeen is when the current resize of the pod was first seen; zero = now.
	ResizeSeen time.Time
	// Replaced counts the resizes that replaced others since the pod was last without one, and
	// ReplacedAt is the last time.
	Replaced   int
	ReplacedAt time.Time
	// Infeasible is what an infeasible resize asked for; nil = there was none (AEP-8818).
	Infeasible facts.Requests
	// Other is the VPA by which admission would change a new pod; empty = VPA itself, or none.
	Other string
	// NoAdmission is why evictions are paused; empty = the admission controller is alive.
	NoAdmission string
	Objects     facts.Objects // nil = nothing is known
}

// Pod is a running pod with what the rules want for it.
type Pod struct {
	facts.PodState
	Priority facts.Priority
	Owner    target.Key // its direct owner; with a namespace only where it has none

	before facts.PodChange // what facts.DoInPlaceBefore does
}

// Assess asks the rules of a plan which resources a pod should have, and how far it is from them.
// It also returns rules that failed.
func Assess(plan *engine.Plan, r Request, trace *engine.Trace) (*Pod, []*engine.RuleError) {
	review := facts.ReviewPod(plan, facts.PodInput{Pod: r.Pod, VPA: r.VPA, Limits: r.Limits, Bounds: true, Now: r.Now, Template: r.Template, Objects: r.Objects}, trace)
	change, failed := review.Change, review.Failed
	p := &Pod{PodState: facts.PodState{
		Pod: r.Pod, VPA: r.VPA, Change: change, Now: r.Now, NoAdmission: r.NoAdmission, Refusal: review.Refusal(), Other: r.Other,
		Defaulted: r.Limits.Defaulted(r.Pod, change), Objects: r.Objects,
	}}
	p.Ignored = ignored(p.Admit(plan, trace))
	p.Resize = resizeAt(r)
	if r.Infeasible != nil {
		p.Attempt.Infeasible = true
		p.Attempt.NowLower = facts.RequestsAfter(r.Pod, p.Change).LowerThan(r.Infeasible)
	}
	p.Owner, _ = target.DirectOwner(r.Pod)
	priority, more := p.Rank(plan, trace)
	p.Priority = priority
	failed = append(failed, more...)
	if over := func(c facts.ContainerChange) bool { return c.Boost.Over }; slices.ContainsFunc(change.Containers, over) && facts.ChangesQOS(r.Pod, change) {
		without := r.VPA.DeepCopy()
		without.Status.Recommendation = nil
		p.before, more = facts.ResourcesForPod(plan, facts.PodInput{Pod: r.Pod, VPA: without, Limits: r.Limits, Now: r.Now, Template: r.Template, Objects: r.Objects}, nil)
		failed = append(failed, more...)
		if facts.ChangesQOS(r.Pod, p.before) { // the pod was created with the boost that makes the difference
			p.before.KeepAmounts()
		}
	}
	return p, failed
}

// ignored is why admission does not change new pods of a VPA; empty = it does.
func ignored(verdict engine.Verdict) string {
	if verdict.Do == facts.DoApply {
		return ""
	}
	return strings.TrimPrefix(verdict.Reason+" ("+verdict.Rule+")", " ")
}

// resizeAt is the status of a resize, and its age.
func resizeAt(r Request) facts.Resize {
	status, since, message := facts.ResizeOf(r.Pod)
	if status == facts.NoResize {
		return facts.Resize{}
	}
	if since.IsZero() || !r.ResizeSeen.IsZero() && r.ResizeSeen.Before(since) {
		since = r.ResizeSeen
	}
	if since.IsZero() {
		since = r.Now
	}
	out := facts.Resize{Status: status, Age: r.Now.Sub(since), Message: message, Replaced: r.Replaced}
	if r.Replaced > 0 {
		out.ReplacedAge = r.Now.Sub(r.ReplacedAt)
	}
	return out
}

// Compare is negative for a pod that is updated before another: by the order of the rules, and by name where those leave it open.
func Compare(a, b *Pod) int {
	return cmp.Or(
		cmp.Compare(b.Priority.First, a.Priority.First),
		cmp.Compare(b.Priority.Then, a.Priority.Then), // NaN comes last
		strings.Compare(a.Pod.Name, b.Pod.Name))
}
