package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/engine/lang"
)

// PodLevel returns the pod-level resources of a spec, or nil. Like API servers, it treats a stanza
// that names no resource as absent; charts render such stanzas.
func PodLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	if r := pod.Spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		return r
	}
	return nil
}

// podResourcesOf returns pod-level requests and limits from the status, else from the spec. ok is
// false without CPU and memory at pod level.
func podResourcesOf(pod *corev1.Pod) (requests, limits corev1.ResourceList, ok bool) {
	asked := PodLevel(pod)
	if asked == nil || !scalable(asked.Requests) && !scalable(asked.Limits) {
		return nil, nil, false
	}
	if actual := pod.Status.Resources; actual != nil {
		return actual.Requests, actual.Limits, true
	}
	return asked.Requests, asked.Limits, true
}

func scalable(list corev1.ResourceList) bool {
	return slices.ContainsFunc(ScaledResources, func(name corev1.ResourceName) bool {
		_, ok := list[name]
		return ok
	})
}

// defaultRequests returns the pod-level requests that API servers fill in for a pod with pod-level
// resources (KEP-2837): before webhooks up to Kubernetes 1.36, after them from 1.37. init are the
// pod's initRequests.
func defaultRequests(pod *corev1.Pod, requests, limits corev1.ResourceList, init *lang.Record) *lang.Record {
	out := resourcesSchema.New()
	for _, name := range ScaledResources {
		if _, requested := requests[name]; requested {
			continue
		}
		running, asked := init.Field("running").(*lang.Record).Int(string(name))
		peak, once := init.Field("peak").(*lang.Record).Int(string(name))
		total := running
		for i := range pod.Spec.Containers {
			if q, ok := pod.Spec.Containers[i].Resources.Requests[name]; ok {
				total, asked = lang.SaturatingAdd(total, AmountOf(name, q)), true
			}
		}
		if asked || once {
			out.SetInt(string(name), max(total, peak))
		} else if limit, limited := limits[name]; limited {
			out.SetInt(string(name), AmountOf(name, limit))
		}
	}
	return out
}

// initSums are the requests of init containers.
type initSums struct{ running, peak *lang.Record }

var initSchema = lang.Bind("InitContainers",
	lang.RecordFrom("running", resourcesSchema.Schema, "requests of those that keep running (sidecars)", func(s initSums) *lang.Record { return s.running }),
	lang.RecordFrom("peak", resourcesSchema.Schema, "the highest request while they run one after the other", func(s initSums) *lang.Record { return s.peak }))

// initRequests sums init containers the way API servers compare a pod's requests with its
// containers' (KEP-2837): sidecars add to the containers, the others run one by one.
func initRequests(pod *corev1.Pod) *lang.Record {
	running, peak := resourcesSchema.New(), resourcesSchema.New()
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		for _, name := range ScaledResources {
			q, ok := c.Resources.Requests[name]
			if !ok {
				continue // sidecars before it are already counted
			}
			field := string(name)
			before, _ := running.Int(field)
			now := lang.SaturatingAdd(before, AmountOf(name, q))
			if keepsRunning(c) {
				running.SetInt(field, now)
			}
			highest, _ := peak.Int(field)
			peak.SetInt(field, max(highest, now))
		}
	}
	return initSchema.Of(initSums{running, peak})
}

// keepsRunning reports whether an init container is a sidecar.
func keepsRunning(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// sidecars sums what sidecars have, which LimitRanger adds to the containers.
func sidecars(pod *corev1.Pod) *lang.Record {
	if len(pod.Spec.InitContainers) == 0 {
		return stanzaSchema.Empty()
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; keepsRunning(c) {
			add(requests, c.Resources.Requests)
			add(limits, c.Resources.Limits)
		}
	}
	return stanzaSchema.Of(stanza{requests, limits})
}

// add adds amounts of the resources that VPAs scale.
func add(to, amounts corev1.ResourceList) {
	for _, name := range ScaledResources {
		if q, ok := amounts[name]; ok {
			q = q.DeepCopy()
			q.Add(to[name])
			to[name] = q
		}
	}
}
