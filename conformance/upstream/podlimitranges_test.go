package upstream

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"github.com/celvpa/celvpa/controllers/facts"
)

// recommendedTogether is the sum of what containers are recommended. One that nothing is recommended for
// counts with its request.
func (r *podResult) recommendedTogether(name corev1.ResourceName) (sum resource.Quantity) {
	for i := range r.In.Pod.Spec.Containers {
		c := &r.In.Pod.Spec.Containers[i]
		amounts := c.Resources.Requests
		if known := recommendedFor(r.VPA, c.Name); known != nil && r.controls(c.Name, name) {
			amounts = known.Target
		}
		sum.Add(amounts[name])
	}
	return sum
}

// ofPods reports whether an item of a LimitRange for pods has a property.
func (r *podResult) ofPods(has func(corev1.LimitRangeItem) bool) bool {
	return slices.ContainsFunc(r.In.LimitRanges, func(limitRange corev1.LimitRange) bool {
		return slices.ContainsFunc(limitRange.Spec.Limits, func(item corev1.LimitRangeItem) bool { return item.Type == corev1.LimitTypePod && has(item) })
	})
}

// belowMinimum reports whether containers are recommended less together than a LimitRange asks of a pod.
func (r *podResult) belowMinimum(name corev1.ResourceName) bool {
	sum := r.recommendedTogether(name)
	var requests, limits resource.Quantity // that upstream writes
	limited := false
	for _, c := range r.Upstream.Pod.Spec.Containers {
		requests.Add(c.Resources.Requests[name])
		limit := c.Resources.Limits[name]
		limited = limited || limit.Sign() > 0
		if request, has := c.Resources.Requests[name]; !has || !request.IsZero() { // for celvpa, the limit of a request of 0 would be 0
			limits.Add(limit)
		}
	}
	return r.ofPods(func(item corev1.LimitRangeItem) bool {
		least := item.Min[name]
		return sum.Cmp(least) < 0 || least.Sign() > 0 && (requests.Cmp(least) < 0 || limited && limits.Cmp(least) < 0)
	})
}

// namesAnotherBound reports whether both sides say what bounds a resource of a container, celvpa a LimitRange for pods at least, or
// whether the bounds that upstream names leave what is recommended.
func (r *podResult) namesAnotherBound(d podDiscrepancy) bool {
	names := func(of *podAnswer) bool {
		return slices.ContainsFunc(of.updates()[d.Index], func(item string) bool {
			return itemResource(item) == d.Resource && strings.Contains(item, " capped to ")
		})
	}
	if d.Ours {
		return strings.HasSuffix(d.Item, " in pod LimitRange") || names(&r.Upstream)
	}
	known := recommendedFor(r.VPA, r.In.Pod.Spec.Containers[d.Index].Name)
	if known == nil {
		return names(&r.Celvpa)
	}
	target, request := known.Target[d.Resource], r.Celvpa.Pod.Spec.Containers[d.Index].Resources.Requests[d.Resource]
	if p := upstreamapi.GetContainerResourcePolicy(r.In.Pod.Spec.Containers[d.Index].Name, r.VPA.Spec.ResourcePolicy); p != nil && r.boostOf(d) != nil {
		least, most := p.MinAllowed[d.Resource], p.MaxAllowed[d.Resource]
		if least.Cmp(most) > 0 && most.Cmp(target) == 0 {
			return true // without the boost the request would be the target
		}
	}
	return names(&r.Celvpa) || request.Cmp(target) == 0
}

// aboveMaximum reports whether they are recommended more than a LimitRange allows a pod, and not all have
// limits.
func (r *podResult) aboveMaximum(name corev1.ResourceName) bool {
	sum := r.recommendedTogether(name)
	lacks := func(c corev1.Container) bool { limit := c.Resources.Limits[name]; return limit.IsZero() }
	return slices.ContainsFunc(r.In.Pod.Spec.Containers, lacks) && r.ofPods(func(item corev1.LimitRangeItem) bool {
		most := item.Max[name]
		return !most.IsZero() && sum.Cmp(most) > 0
	})
}

// refusedAsUpstreamHasIt reports whether API servers refuse upstream's pod for a resource.
func (r *podResult) refusedAsUpstreamHasIt(name corev1.ResourceName) bool {
	return r.Upstream.Pod != nil && facts.FoldLimitRanges(r.In.LimitRanges).Refuses(name, r.Upstream.Pod) != ""
}

// fillsInRequests reports whether API servers fill in a request of a container, its limit, in a pod with pod-level
// resources. Upstream has it request 0.
func (r *podResult) fillsInRequests(name corev1.ResourceName) bool {
	return r.In.Pod.Spec.Resources != nil && slices.ContainsFunc(r.In.Pod.Spec.Containers, func(c corev1.Container) bool {
		_, asked := c.Resources.Requests[name]
		_, limited := c.Resources.Limits[name]
		return limited && !asked
	})
}

// lowerMaximum takes the limits of sidecars from the lowest maximum that LimitRanges have for pods, if
// that leaves any. It reports whether it did.
func (r *podResult) lowerMaximum(input map[string]any, name corev1.ResourceName) bool {
	var sidecars resource.Quantity
	for i := range r.In.Pod.Spec.InitContainers {
		if c := &r.In.Pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.Add(c.Resources.Limits[name])
		}
	}
	var lowest resource.Quantity
	var of map[string]any
	list, _ := input["limitRanges"].([]any)
	for _, item := range itemsOf(list, "Pod") {
		most, _ := item["max"].(map[string]any)
		if text, ok := most[string(name)]; ok {
			if q := resource.MustParse(fmt.Sprint(text)); !q.IsZero() && (of == nil || q.Cmp(lowest) < 0) {
				lowest, of = q, most
			}
		}
	}
	if of == nil || sidecars.Sign() <= 0 || sidecars.Cmp(lowest) >= 0 {
		return false
	}
	lowest.Sub(sidecars)
	of[string(name)] = lowest.String()
	return true
}
