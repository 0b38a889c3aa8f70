package workloads

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// shape says which of request and limit a container has.
type shape int

const (
	nothing shape = iota
	requestOnly
	limitOnly
	equal
	different
)

// Pod generates a pod as written. Its name and images are such that API servers take it.
func (r Random) Pod() *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: meta("web-1")}
	t := r.temper()
	usual := map[corev1.ResourceName]shape{}
	for _, name := range both {
		usual[name] = OneOf(r, nothing, requestOnly, limitOnly, equal, different, different, different)
	}
	alike := OneOf(r, 0, 60, 100, 100)
	resources := func() corev1.ResourceRequirements {
		var out corev1.ResourceRequirements
		for _, name := range both {
			like := usual[name]
			if !r.In(alike) {
				like = OneOf(r, nothing, requestOnly, requestOnly, limitOnly, equal, different, different)
			}
			r.stanza(&out, name, like, t)
		}
		return out
	}
	if r.In(30) {
		for i := range OneOf(r, 1, 1, 2) {
			c := corev1.Container{Name: numbered("i", i), Image: "x", Resources: resources()}
			if r.In(65) {
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			}
			out.Spec.InitContainers = append(out.Spec.InitContainers, c)
		}
	}
	n := OneOf(r, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4)
	if r.IntN(250) == 0 {
		n = 50
	}
	for i := range n {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: numbered("c", i), Image: "x", Resources: resources()})
	}
	if r.In(20) {
		out.Spec.Resources = r.podLevel(out)
	}
	return out
}

func (r Random) stanza(out *corev1.ResourceRequirements, name corev1.ResourceName, like shape, t temper) {
	request := r.amount(name, t)
	switch like {
	case requestOnly:
		set(&out.Requests, name, request)
	case limitOnly:
		set(&out.Limits, name, request)
	case equal:
		set(&out.Requests, name, request)
		set(&out.Limits, name, request)
	case different:
		set(&out.Requests, name, request)
		limit := times(name, request, OneOf(r, 1, 1.2, 1.5, 2, 2, 2, 3, 4, 10, 16, 100))
		if other := r.amount(name, t); r.In(30) && other.Cmp(request) >= 0 {
			limit = other
		}
		set(&out.Limits, name, limit)
	}
}

// podLevel are pod-level resources that cover those of the containers.
func (r Random) podLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	out := &corev1.ResourceRequirements{}
	requests := helpers.AggregateContainerRequests(requestsFilledIn(pod), helpers.PodResourcesOptions{})
	for _, name := range both {
		if r.In(20) {
			continue
		}
		request := requests[name].DeepCopy()
		if r.In(70) {
			request.Add(r.amount(name, 0))
		}
		if r.In(80) {
			set(&out.Requests, name, request)
		}
		if r.In(50) {
			set(&out.Limits, name, r.podLimit(pod, name, request))
		}
	}
	return out
}

// podLimit is one that no container's own limit exceeds.
func (r Random) podLimit(pod *corev1.Pod, name corev1.ResourceName, request resource.Quantity) resource.Quantity {
	limit := request.DeepCopy()
	if r.In(60) {
		limit.Add(r.amount(name, 1))
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if own := list[i].Resources.Limits[name]; own.Cmp(limit) > 0 {
				limit = own.DeepCopy()
			}
		}
	}
	return limit
}

// requestsFilledIn is the pod with requests where there are limits only, as API servers store it.
func requestsFilledIn(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	for _, list := range [][]corev1.Container{out.Spec.Containers, out.Spec.InitContainers} {
		for i := range list {
			for name, q := range list[i].Resources.Limits {
				if _, there := list[i].Resources.Requests[name]; !there {
					set(&list[i].Resources.Requests, name, q)
				}
			}
		}
	}
	return out
}
