package judge

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/conformance/workloads"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// feature is something that a workload may have, and how it is removed.
type feature struct {
	name   string
	remove func(*workloads.Workload)
}

func ofPolicies(change func(*vpav1.ContainerResourcePolicy)) func(*workloads.Workload) {
	return func(w *workloads.Workload) {
		if policy := w.VPA.Spec.ResourcePolicy; policy != nil {
			for i := range policy.ContainerPolicies {
				change(&policy.ContainerPolicies[i])
			}
		}
	}
}

// features are in the order in which they are removed.
var features = []feature{
	{"startup boost", func(w *workloads.Workload) {
		w.VPA.Spec.StartupBoost = nil
		ofPolicies(func(p *vpav1.ContainerResourcePolicy) { p.StartupBoost = nil })(w)
	}},
	{"minAllowed or maxAllowed", func(w *workloads.Workload) {
		ofPolicies(func(p *vpav1.ContainerResourcePolicy) { p.MinAllowed, p.MaxAllowed = nil, nil })(w)
		if policy := w.VPA.Spec.ResourcePolicy; policy != nil && policy.PodPolicies != nil {
			policy.PodPolicies.MinAllowed, policy.PodPolicies.MaxAllowed = nil, nil
		}
	}},
	{"memoryPerCPU", ofPolicies(func(p *vpav1.ContainerResourcePolicy) { p.MemoryPerCPU = nil })},
	{"requestToLimitRatio", ofPolicies(func(p *vpav1.ContainerResourcePolicy) { p.RequestToLimitRatio = nil })},
	{"pod-level resources", func(w *workloads.Workload) { w.Pod.Spec.Resources = nil }},
	{"init containers", func(w *workloads.Workload) {
		w.Pod.Spec.InitContainers = slices.DeleteFunc(w.Pod.Spec.InitContainers, func(c corev1.Container) bool { return c.RestartPolicy == nil })
	}},
	{"sidecars", func(w *workloads.Workload) {
		w.Pod.Spec.InitContainers = slices.DeleteFunc(w.Pod.Spec.InitContainers, func(c corev1.Container) bool { return c.RestartPolicy != nil })
	}},
	{"controlledResources", ofPolicies(func(p *vpav1.ContainerResourcePolicy) { p.ControlledResources = nil })},
	{"mode Off", ofPolicies(func(p *vpav1.ContainerResourcePolicy) { p.Mode = nil })},
	{"RequestsOnly", ofPolicies(func(p *vpav1.ContainerResourcePolicy) { p.ControlledValues = nil })},
	{"a recommendation of 0", withoutZeros},
	{"a recommendation", func(w *workloads.Workload) { w.VPA.Status.Recommendation = &vpav1.RecommendedPodResources{} }},
	{"several containers", func(w *workloads.Workload) { w.Pod.Spec.Containers = w.Pod.Spec.Containers[:1] }},
	{"LimitRanges of containers", func(w *workloads.Workload) { withoutRanges(w, corev1.LimitTypeContainer) }},
	{"LimitRanges of pods", func(w *workloads.Workload) { withoutRanges(w, corev1.LimitTypePod) }},
}

// reduce removes the features without which the workload is refused as well, and names the others.
func (f *finding) reduce() {
	var out []string
	for _, feature := range features {
		without := copied(f.Workload)
		feature.remove(without)
		switch {
		case string(encoded(without)) == string(encoded(f.Workload)): // it has none
		case f.shows(without):
			f.Workload = without
		default:
			out = append(out, feature.name)
		}
	}
	f.need = strings.Join(out, ", ")
}

func withoutRanges(w *workloads.Workload, of corev1.LimitType) {
	for i := range w.LimitRanges {
		spec := &w.LimitRanges[i].Spec
		spec.Limits = slices.DeleteFunc(spec.Limits, func(item corev1.LimitRangeItem) bool { return item.Type == of })
	}
	w.LimitRanges = slices.DeleteFunc(w.LimitRanges, func(limitRange corev1.LimitRange) bool { return len(limitRange.Spec.Limits) == 0 })
}

func copied(w *workloads.Workload) *workloads.Workload {
	out := &workloads.Workload{VPA: w.VPA.DeepCopy(), Pod: w.Pod.DeepCopy(), Later: w.Later.DeepCopy()}
	for i := range w.LimitRanges {
		out.LimitRanges = append(out.LimitRanges, *w.LimitRanges[i].DeepCopy())
	}
	return out
}

// withoutZeros removes recommendations of 0.
func withoutZeros(w *workloads.Workload) {
	if w.VPA.Status.Recommendation == nil {
		return
	}
	for i := range w.VPA.Status.Recommendation.ContainerRecommendations {
		target := w.VPA.Status.Recommendation.ContainerRecommendations[i].Target
		for name, q := range target {
			if q.IsZero() {
				delete(target, name)
			}
		}
	}
}
