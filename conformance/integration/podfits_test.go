package integration

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// totals are what LimitRanges of type Pod bound, from containers alone: sidecars are added, other
// init containers run one by one.
func totals(p *corev1.Pod) (requests, limits corev1.ResourceList) {
	of := func(list func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, name := range bothResources {
			var sum, running, peak resource.Quantity
			any := false
			for i := range p.Spec.Containers {
				q, ok := list(&p.Spec.Containers[i])[name]
				any = any || ok
				sum.Add(q)
			}
			for i := range p.Spec.InitContainers {
				c := &p.Spec.InitContainers[i]
				q, ok := list(c)[name]
				any = any || ok
				now := running.DeepCopy()
				now.Add(q)
				if c.RestartPolicy != nil {
					running.Add(q)
					sum.Add(q)
				}
				if now.Cmp(peak) > 0 {
					peak = now
				}
			}
			if peak.Cmp(sum) > 0 {
				sum = peak
			}
			if any {
				out[name] = sum
			}
		}
		return out
	}
	return of(func(c *corev1.Container) corev1.ResourceList {
		requests := corev1.ResourceList{}
		for name, q := range c.Resources.Limits {
			requests[name] = q
		}
		for name, q := range c.Resources.Requests {
			requests[name] = q
		}
		return requests
	}), of(func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
}

// fits approximates whether LimitRanges accept a pod.
func fits(p *corev1.Pod, ranges []corev1.LimitRangeItem) bool {
	requests, limits := totals(p)
	if p.Spec.Resources != nil {
		for _, name := range bothResources {
			if q, ok := p.Spec.Resources.Limits[name]; ok {
				limits[name] = q
				requests[name] = q
			}
			if q, ok := p.Spec.Resources.Requests[name]; ok {
				requests[name] = q
			}
		}
	}
	within := func(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) bool {
		for name, least := range item.Min {
			request, ok := requests[name]
			if limit, limited := limits[name]; !ok || request.Cmp(least) < 0 || limited && limit.Cmp(least) < 0 {
				return false
			}
		}
		for name, most := range item.Max {
			limit, ok := limits[name]
			if request := requests[name]; !ok || limit.Cmp(most) > 0 || request.Cmp(most) > 0 {
				return false
			}
		}
		return true
	}
	for i := range ranges {
		if ranges[i].Type == corev1.LimitTypePod && !within(&ranges[i], requests, limits) {
			return false
		}
		if ranges[i].Type == corev1.LimitTypeContainer {
			for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
				for j := range list {
					if !within(&ranges[i], list[j].Resources.Requests, list[j].Resources.Limits) {
						return false
					}
				}
			}
		}
	}
	return true
}
