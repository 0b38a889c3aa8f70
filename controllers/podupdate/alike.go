package podupdate

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
)

// maxKinds is how many pods that differ are remembered. Workloads have few kinds of pods, such as
// those before and after a roll-out.
const maxKinds = 4

// Alike assesses the pods of one VPA by one plan at one time. Most pods of a workload are alike, and
// the rules are asked about those once. The zero value is ready for use.
type Alike struct {
	kinds []*Pod
	asked bool
	apart bool // rules may tell pods apart that are alike here
}

// Assess is Assess, and asks no rules about a pod that is like an earlier one. With a trace it asks
// about each. Requests must not differ but in what they say about the pod.
func (a *Alike) Assess(plan *engine.Plan, r Request, trace *engine.Trace) (*Pod, []*engine.RuleError) {
	if !a.asked {
		a.asked, a.apart = true, len(plan.RuleSets(facts.PodValidate)) > 0 || plan.Reads(facts.PodResources, "start")
	}
	if !a.apart && trace == nil {
		for _, kind := range a.kinds {
			if kind.Other == r.Other && alike(kind.PodState.Pod, r.Pod) {
				return kind.like(r), nil
			}
		}
	}
	p, failed := Assess(plan, r, trace)
	if len(failed) == 0 && len(a.kinds) < maxKinds {
		a.kinds = append(a.kinds, p)
	}
	return p, failed
}

// alike reports whether two pods of a VPA are the same to pod.fit, pod.resources and pod.priority: to all
// rules that Assess asks, but for those that read how long a pod has been ready, or check new pods.
func alike(a, b *corev1.Pod) bool {
	return reflect.DeepEqual(a.Spec.Containers, b.Spec.Containers) &&
		reflect.DeepEqual(a.Spec.InitContainers, b.Spec.InitContainers) &&
		reflect.DeepEqual(a.Spec.Resources, b.Spec.Resources) &&
		maps.Equal(a.Annotations, b.Annotations) &&
		a.Status.QOSClass == b.Status.QOSClass &&
		reflect.DeepEqual(a.Status.Resources, b.Status.Resources) &&
		slices.EqualFunc(a.Status.ContainerStatuses, b.Status.ContainerStatuses, func(a, b corev1.ContainerStatus) bool {
			return a.Name == b.Name && a.LastTerminationState.Terminated == nil && b.LastTerminationState.Terminated == nil &&
				reflect.DeepEqual(a.Resources, b.Resources)
		})
}

// like is what the rules say about another pod, which is alike.
func (p *Pod) like(r Request) *Pod {
	other := &Pod{PodState: p.PodState.Like(r.Pod), Priority: p.Priority}
	other.about(r)
	return other
}

// about takes what a request says about a pod itself.
func (p *Pod) about(r Request) {
	p.Resize = resizeAt(r)
	if r.Infeasible != nil {
		p.Attempt.Infeasible = true
		p.Attempt.NowLower = facts.RequestsAfter(r.Pod, p.Change).LowerThan(r.Infeasible)
	}
	p.Owner, _ = target.DirectOwner(r.Pod)
}
