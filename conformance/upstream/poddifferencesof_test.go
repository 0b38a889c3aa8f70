package upstream

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

func (r *podResult) hasDefaultCPU() bool {
	for i := range r.In.LimitRanges {
		for _, item := range r.In.LimitRanges[i].Spec.Limits {
			if q, ok := item.Default[corev1.ResourceCPU]; ok && item.Type == corev1.LimitTypeContainer && !q.IsZero() {
				return true
			}
		}
	}
	return false
}

// raiseMaximums raises maxAllowed.cpu of container policies to the highest minimum that LimitRanges have for containers, or for the
// pod if it has but one. It reports whether one was below.
func (r *podResult) raiseMaximums(input map[string]any) (raised bool) {
	var least resource.Quantity
	list, _ := input["limitRanges"].([]any)
	items := itemsOf(list, "Container")
	if len(r.In.Pod.Spec.Containers) == 1 {
		items = append(items, itemsOf(list, "Pod")...)
	}
	for _, item := range items {
		if q, ok := quantityAt(item, "min.cpu"); ok && q.Cmp(least) > 0 {
			least = q
		}
	}
	policies, _ := get(input, "vpa.spec.resourcePolicy.containerPolicies").([]any)
	for _, p := range policies {
		policy, _ := p.(map[string]any)
		if most, ok := quantityAt(policy, "maxAllowed.cpu"); ok && most.Cmp(least) < 0 {
			put(policy, placeOf("maxAllowed.cpu"), least.String())
			raised = true
		}
	}
	return raised
}

func isBare(r corev1.ResourceRequirements) bool { return len(r.Requests) == 0 && len(r.Limits) == 0 }

// isOff reports whether a policy sets mode Off for a container.
func (r *podResult) isOff(container string) bool {
	p := upstreamapi.GetContainerResourcePolicy(container, r.VPA.Spec.ResourcePolicy)
	return p != nil && p.Mode != nil && *p.Mode == upstreamv1.ContainerScalingModeOff
}

// requestsOnly reports whether a policy leaves the limits of a container alone.
func (r *podResult) requestsOnly(container string) bool {
	p := upstreamapi.GetContainerResourcePolicy(container, r.VPA.Spec.ResourcePolicy)
	return p != nil && p.ControlledValues != nil && *p.ControlledValues == upstreamv1.ContainerControlledValuesRequestsOnly
}

// controls reports whether a policy controls a resource of a container.
func (r *podResult) controls(container string, name corev1.ResourceName) bool {
	p := upstreamapi.GetContainerResourcePolicy(container, r.VPA.Spec.ResourcePolicy)
	return p == nil || p.ControlledResources == nil || slices.Contains(*p.ControlledResources, name)
}

// dropUncontrolled removes uncontrolled CPU or memory from a container's recommendation, in place.
// It reports whether there was any.
func (r *podResult) dropUncontrolled(recommendation map[string]any) bool {
	changed := false
	container, _ := get(recommendation, "containerName").(string)
	for _, field := range []string{"target", "lowerBound", "upperBound"} {
		amounts, _ := recommendation[field].(map[string]any)
		for name := range amounts {
			if one := corev1.ResourceName(name); slices.Contains(bounded, one) && !r.controls(container, one) {
				delete(amounts, name)
				changed = true
			}
		}
	}
	return changed
}

// inserts reports whether only upstream writes a resource that is not recommended for a container.
func (r *podResult) inserts(index int, name corev1.ResourceName) bool {
	c := &r.In.Pod.Spec.Containers[index]
	target := c.Resources.Requests
	if known := recommendedFor(r.VPA, c.Name); known != nil {
		target = known.Target
	}
	if _, ok := target[name]; ok && r.controls(c.Name, name) {
		return false
	}
	if name == corev1.ResourceCPU && r.boost(c.Name) != nil {
		return true // what it inserts is what is boosted
	}
	before, theirs, ours := c.Resources, r.Upstream.Pod.Spec.Containers[index].Resources, r.Celvpa.Pod.Spec.Containers[index].Resources
	return !slices.Contains(differing(before.Requests, ours.Requests), name) && slices.Contains(r.Upstream.updates()[index], string(name)+" request") &&
		(slices.Contains(differing(before.Requests, theirs.Requests), name) || !slices.Contains(r.Celvpa.updates()[index], string(name)+" request"))
}

// countsWhatItLeaves reports whether some container gets one resource while the other is not
// recommended or not controlled. celvpa then counts what the container has of that other one.
func (r *podResult) countsWhatItLeaves(name corev1.ResourceName) bool {
	return slices.ContainsFunc(r.In.Pod.Spec.Containers, func(c corev1.Container) bool {
		target := c.Resources.Requests
		if known := recommendedFor(r.VPA, c.Name); known != nil {
			target = known.Target
		}
		_, given := target[name]
		_, requested := c.Resources.Requests[name]
		_, limited := c.Resources.Limits[name]
		return !(given && r.controls(c.Name, name)) && len(target) > 0 && (requested || limited)
	})
}

// limit is a container's limit before any change.
func (r *podResult) limit(index int) corev1.ResourceList {
	if index < 0 {
		return nil
	}
	return r.In.Pod.Spec.Containers[index].Resources.Limits
}

// refused reports whether API servers refuse the resource that upstream writes for a container.
func (r *podResult) refused(index int, name corev1.ResourceName) bool {
	if index < 0 || name == "" {
		return false
	}
	after := r.Upstream.Pod.Spec.Containers[index].Resources
	request, limit := after.Requests[name], after.Limits[name]
	return tooMuch(after, name) || request.Sign() < 0 || limit.Sign() < 0
}

// scaledToNothing reports whether upstream has a container request 0 of a resource that it requested and has a limit for.
func (r *podResult) scaledToNothing(index int, name corev1.ResourceName) bool {
	if index < 0 || name == "" {
		return false
	}
	had, has := r.In.Pod.Spec.Containers[index].Resources.Requests[name], r.Upstream.Pod.Spec.Containers[index].Resources
	request, limit := has.Requests[name], has.Limits[name]
	return request.IsZero() && had.Sign() > 0 && limit.Sign() > 0
}

// addsNothing reports whether upstream adds a request of 0.
func (r *podResult) addsNothing(index int, name corev1.ResourceName) bool {
	_, had := r.In.Pod.Spec.Containers[index].Resources.Requests[name]
	request, has := r.Upstream.Pod.Spec.Containers[index].Resources.Requests[name]
	return !had && has && request.IsZero()
}

// amounts are all quantities of a resource in a case, and upstream's results.
func (r *podResult) amounts(name corev1.ResourceName) []resource.Quantity {
	var out []resource.Quantity
	add := func(lists ...corev1.ResourceList) {
		for _, list := range lists {
			if q, ok := list[name]; ok {
				out = append(out, q)
			}
		}
	}
	for _, pod := range []*corev1.Pod{r.In.Pod, r.Upstream.Pod} {
		for i := range pod.Spec.Containers {
			add(pod.Spec.Containers[i].Resources.Requests, pod.Spec.Containers[i].Resources.Limits)
		}
	}
	if own := r.In.Pod.Spec.Resources; own != nil { // whose sums count
		add(own.Requests, own.Limits)
		for i := range r.In.Pod.Spec.InitContainers {
			add(r.In.Pod.Spec.InitContainers[i].Resources.Requests, r.In.Pod.Spec.InitContainers[i].Resources.Limits)
		}
	}
	for i := range r.In.LimitRanges {
		for _, item := range r.In.LimitRanges[i].Spec.Limits {
			add(item.Min, item.Max, item.Default)
		}
	}
	if p := r.VPA.Spec.ResourcePolicy; p != nil {
		for i := range p.ContainerPolicies {
			add(p.ContainerPolicies[i].MinAllowed, p.ContainerPolicies[i].MaxAllowed)
		}
	}
	if rec := r.VPA.Status.Recommendation; rec != nil {
		for i := range rec.ContainerRecommendations {
			add(rec.ContainerRecommendations[i].Target)
		}
	}
	return out
}

// concerns reports whether a condition holds for the resource in which a container differs. For a
// missing limit, the cause may lie in the other resource.
func (r *podResult) concerns(d podDiscrepancy, holds func(corev1.ResourceName) bool) bool {
	if d.Index < 0 {
		return false
	}
	return d.Resource != "" && holds(d.Resource) || isNoLimit(d) && slices.ContainsFunc(bounded, holds)
}

// dependsOn reports whether something that holds for a resource may cause a discrepancy of a container. Boosts
// are of CPU, and vpaUpdates names both resources.
func (d podDiscrepancy) dependsOn(holds func(corev1.ResourceName) bool) bool {
	return d.Index >= 0 && (d.Resource != "" && holds(d.Resource) || d.Kind == podBoost && holds(corev1.ResourceCPU) ||
		d.Kind == podUpdates && slices.ContainsFunc(bounded, holds))
}

func isNoLimit(d podDiscrepancy) bool {
	return d.Kind == podUpdates && strings.Contains(d.Item, ": limit NOT set since ")
}

// isUneven reports whether a quantity is not a whole number of milli-cores or bytes.
func isUneven(name corev1.ResourceName, q resource.Quantity) bool {
	if name == corev1.ResourceCPU {
		return !q.RoundUp(resource.Milli)
	}
	return !q.RoundUp(0)
}

// boost is a container's startup boost; nil = none.
func (r *podResult) boost(container string) *upstreamv1.StartupBoost {
	if !r.Gates.CPUStartupBoost || r.isOff(container) {
		return nil
	}
	if p := upstreamapi.GetContainerResourcePolicy(container, r.VPA.Spec.ResourcePolicy); p != nil && p.StartupBoost != nil {
		return p.StartupBoost
	}
	return r.VPA.Spec.StartupBoost
}

// boostOf is the boost of the container of a discrepancy.
func (r *podResult) boostOf(d podDiscrepancy) *upstreamv1.StartupBoost {
	if d.Index < 0 {
		return nil
	}
	return r.boost(r.In.Pod.Spec.Containers[d.Index].Name)
}

// beyond reports whether a quantity overflows an int64.
func beyond(name corev1.ResourceName, q resource.Quantity) bool {
	most := resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	if name == corev1.ResourceCPU {
		most = resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)
	}
	return q.Cmp(*most) >= 0
}

// refusedWhole is refused for the pod level.
func (r *podResult) refusedWhole(name corev1.ResourceName) bool {
	whole := *r.In.Pod.Spec.Resources
	if most, ok := mostRequested(whole, name); ok {
		if sum := requestedTogether(r.Upstream.Pod, name); sum.Cmp(most) > 0 {
			return true
		}
	}
	most, ok := whole.Limits[name]
	return ok && slices.ContainsFunc(r.Upstream.Pod.Spec.Containers, func(c corev1.Container) bool {
		limit, has := c.Resources.Limits[name]
		return has && limit.Cmp(most) > 0
	})
}

// refusedBefore is refusedWhole for CPU before boosts, which may be lower.
func (r *podResult) refusedBefore() bool {
	c := testCase{Object: map[string]any{"pod": r.In.Pod, "vpa": r.In.VPA, "limitRanges": r.In.LimitRanges}}
	without, err := podByUpstream(c)
	if err != nil || without.Panicked != "" {
		return false
	}
	other := *r
	other.Upstream = without
	return other.refusedWhole(corev1.ResourceCPU)
}

// itemsOf are the items of one type in the case's LimitRanges.
func itemsOf(list []any, kind string) []map[string]any {
	var out []map[string]any
	for _, limitRange := range list {
		items, _ := get(limitRange, "spec.limits").([]any)
		for _, item := range items {
			if m, ok := item.(map[string]any); ok && m["type"] == kind {
				out = append(out, m)
			}
		}
	}
	return out
}

// aboveCeiling reports whether a quantity exceeds the default ceilings.
func aboveCeiling(name corev1.ResourceName, q resource.Quantity) bool {
	return q.Cmp(map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: resource.MustParse("10k"), corev1.ResourceMemory: resource.MustParse("64Ti")}[name]) > 0
}
