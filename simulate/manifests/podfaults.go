package manifests

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PodFaults lists why an API server would refuse a pod's resource amounts despite webhooks.
func PodFaults(pod *corev1.Pod) (out []string) {
	if len(pod.Spec.Containers) == 0 {
		out = append(out, "spec.containers is empty: a pod needs a container")
	}
	if own := pod.Spec.Resources; own != nil {
		out = append(out, resourceFaults("spec.resources", own, podLevelResource)...)
	}
	for name, list := range map[string][]corev1.Container{"containers": pod.Spec.Containers, "initContainers": pod.Spec.InitContainers} {
		for i := range list {
			out = append(out, resourceFaults(fmt.Sprintf("spec.%s[%d].resources", name, i), &list[i].Resources, containerResource)...)
		}
	}
	slices.Sort(out)
	return out
}

func resourceFaults(at string, r *corev1.ResourceRequirements, known func(string) bool) (out []string) {
	for kind, list := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
		for name, q := range list {
			field := fmt.Sprintf("%s.%s[%s]", at, kind, name)
			limit, limited := r.Limits[name]
			switch {
			case !known(string(name)):
				out = append(out, field+" is not a resource that containers can request: write cpu or memory, or the full name of another one, like example.com/gpu")
			case q.Sign() < 0:
				out = append(out, fmt.Sprintf("%s is %s: amounts cannot be negative", field, q.String()))
			case kind == "requests" && limited && q.Cmp(limit) > 0:
				out = append(out, fmt.Sprintf("%s is %s, more than its limit %s", field, q.String(), limit.String()))
			}
		}
	}
	return out
}

func containerResource(name string) bool {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) || strings.Contains(name, "/")
}

func podLevelResource(name string) bool {
	return name == string(corev1.ResourceCPU) || name == string(corev1.ResourceMemory) || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}
