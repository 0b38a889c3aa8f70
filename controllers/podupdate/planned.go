package podupdate

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Planned describes what is done with a pod, and what the rules want for it. trace may be nil.
func Planned(p *Pod, verdict engine.Verdict, trace *engine.Trace) answers.PlannedPod {
	pod := p.PodState.Pod
	out := LeftAlone(pod, p.VPA, verdict)
	out.Action = Action(verdict.Do)
	out.Priority = &answers.Priority{OutsideRecommendedRange: p.Priority.OutsideRecommendedRange, ScaleUp: p.Priority.ScaleUp, ResourceDiff: answers.Number(p.Priority.ResourceDiff), MayEvict: p.Priority.MayEvict}
	for _, alteration := range facts.Alterations(pod, ChangeOf(p, verdict)) {
		out.Change = append(out.Change, answers.Change(alteration))
	}
	for _, capped := range facts.CappedTargets(p.VPA, p.Change) {
		out.Capped = append(out.Capped, answers.Capped(capped))
	}
	if trace != nil {
		out.Steps = trace.Steps()
	}
	return out
}

// LeftAlone describes a pod that is skipped; v is nil without a VPA, the rule empty if none ran.
func LeftAlone(pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, why engine.Verdict) answers.PlannedPod {
	out := answers.PlannedPod{Pod: pod.Namespace + "/" + pod.Name, Action: facts.DoSkip, Rule: why.Rule, Class: why.Class, Reason: why.Reason, Until: why.Until}
	if v != nil {
		out.VPA = v.Namespace + "/" + v.Name
	}
	return out
}

// ChangeOf is the part of a pod's change that a verdict carries out.
func ChangeOf(p *Pod, verdict engine.Verdict) facts.PodChange {
	switch verdict.Do {
	case facts.DoInPlaceCPU:
		return p.Change.WithoutMemory(p.PodState.Pod)
	case facts.DoInPlaceBefore:
		return p.before
	}
	return p.Change
}

// Action is the action of an outcome; remembering something is none.
func Action(do string) string {
	switch do {
	case facts.DoEvict, facts.DoInPlace, facts.DoWait:
		return do
	case facts.DoInPlaceCPU, facts.DoInPlaceBefore:
		return facts.DoInPlace
	case facts.DoRememberInfeasible:
		return facts.DoWait
	}
	return facts.DoSkip
}

// Acts reports whether an outcome of pod.update or pod.unboost changes the pod.
func Acts(do string) bool { return do == facts.DoEvict || Resizes(do) }

// Resizes reports whether an outcome of pod.update or pod.unboost resizes the pod in place.
func Resizes(do string) bool {
	return do == facts.DoInPlace || do == facts.DoInPlaceCPU || do == facts.DoInPlaceBefore
}

// PreferUnboost reports whether to show what pod.unboost says about a boosted pod instead of what
// pod.update says, which leaves the pod alone. A Skip is shown if somebody has to change something for
// the boost to end, unless an update is due: that would end it too.
func PreferUnboost(update, unboost engine.Verdict) bool {
	return unboost.Do != facts.DoSkip || unboost.Class == facts.ClassMisconfigured && update.Class == facts.ClassSettled
}

// ShadowDifferences describes what an audited plan would do differently with a pod that the
// enforced plan has assessed: the decision, the order, and the resources. ask is the question that
// enforced answers. It is nil without differences.
func ShadowDifferences(shadow *engine.Plan, r Request, assessed *Pod, enforced engine.Verdict, ask func(*Pod, *engine.Plan) engine.Verdict) []string {
	tried, _ := Assess(shadow, r, nil)
	verdict := ask(tried, shadow)
	differs := policy.VerdictDifference(enforced, verdict)
	if order, other := assessed.Priority, tried.Priority; other.First != order.First || cmp.Compare(other.Then, order.Then) != 0 {
		differs = append(differs, fmt.Sprintf("order (%d, %g) → (%d, %g)", order.First, order.Then, other.First, other.Then))
	}
	if Acts(verdict.Do) {
		differs = append(differs, facts.ChangeDifferences(assessed.Change, tried.Change)...)
	}
	return differs
}
