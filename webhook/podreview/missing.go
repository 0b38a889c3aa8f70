package podreview

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Missing is a request for which the VPA has no target (AEP-7571, patch generation).
type Missing struct {
	Container string // empty = the pod as a whole
	Resource  corev1.ResourceName
}

// missing lists the requests without a target of a pod with pod-level resources: those of the pod, where a limit counts as a request
// because API servers fill the request in, then those of its containers.
func missing(pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler) []Missing {
	targets := map[string]corev1.ResourceList{}
	if r := v.Status.Recommendation; r != nil {
		for _, c := range r.ContainerRecommendations {
			if _, again := targets[c.ContainerName]; !again { // the first one counts
				targets[c.ContainerName] = c.Target
			}
		}
		if r.PodRecommendation != nil {
			targets[""] = r.PodRecommendation.Target
		}
	}
	var out []Missing
	add := func(container string, asked ...corev1.ResourceList) {
		for _, name := range facts.ScaledResources {
			for _, list := range asked {
				if _, requested := list[name]; !requested {
					continue
				}
				if _, recommended := targets[container][name]; !recommended {
					out = append(out, Missing{Container: container, Resource: name})
				}
				break
			}
		}
	}
	if r := pod.Spec.Resources; r != nil {
		add("", r.Requests, r.Limits)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Resources.Requests)
	}
	return out
}
