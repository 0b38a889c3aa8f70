package poddefaults

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource" // sums containers for API servers, too
)

// PodLevel completes the resources of a pod as a whole, of a pod that has some (KEP-2837), in the
// order in which each step needs the one before:
//   - the limit of huge pages is what the containers may use together;
//   - the request of CPU and memory is what the containers request together, else the limit;
//   - the limit of what all containers limit is what they may use together, and not below the request.
func PodLevel(spec *corev1.PodSpec) {
	own := spec.Resources
	if own == nil || len(own.Requests)+len(own.Limits) == 0 {
		return
	}
	containers := &corev1.Pod{Spec: corev1.PodSpec{Containers: spec.Containers, InitContainers: spec.InitContainers}}
	requests := resource.AggregateContainerRequests(containers, resource.PodResourcesOptions{})

	own.Limits = filledIn(own.Limits, only(resource.AggregateContainerLimits(containers, resource.PodResourcesOptions{}), func(name corev1.ResourceName) bool {
		_, requested := own.Requests[name]
		return hugePages(name) && !requested
	}))
	own.Requests = filledIn(own.Requests, only(requests, func(name corev1.ResourceName) bool {
		return resource.IsSupportedPodLevelResource(name) && !hugePages(name)
	}))
	own.Requests = filledIn(own.Requests, only(own.Limits, resource.IsSupportedPodLevelResource))
	own.Limits = filledIn(own.Limits, PodLimits(spec, own.Requests))
}

// PodLimits are the limits that API servers give a pod that has none, but these requests: what its
// containers may use together of a resource, where all of them limit it.
func PodLimits(spec *corev1.PodSpec, requests corev1.ResourceList) corev1.ResourceList {
	containers := &corev1.Pod{Spec: corev1.PodSpec{Containers: spec.Containers, InitContainers: spec.InitContainers}}
	out := only(resource.AggregateContainerLimits(containers, resource.PodResourcesOptions{}), func(name corev1.ResourceName) bool {
		_, requested := requests[name]
		return requested && resource.IsSupportedPodLevelResource(name) && allLimit(spec, name)
	})
	for name, limit := range out {
		if request := requests[name]; request.Cmp(limit) > 0 {
			out[name] = request
		}
	}
	return out
}

// only is a list without the resources that do not count.
func only(list corev1.ResourceList, counts func(corev1.ResourceName) bool) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if counts(name) {
			out[name] = q
		}
	}
	return out
}

// allLimit reports whether every container limits a resource.
func allLimit(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	lacks := func(c corev1.Container) bool { _, limited := c.Resources.Limits[name]; return !limited }
	return !slices.ContainsFunc(spec.Containers, lacks) && !slices.ContainsFunc(spec.InitContainers, lacks)
}

func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
