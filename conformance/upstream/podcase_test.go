package upstream

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// podInput is the object of a case about a pod: the pod, the VPA that controls it, and the
// LimitRanges of the namespace, as API servers return them.
type podInput struct {
	Pod         *corev1.Pod         `json:"pod"`
	VPA         json.RawMessage     `json:"vpa"`
	LimitRanges []corev1.LimitRange `json:"limitRanges,omitempty"`
	MaxBoost    string              `json:"maxAllowedCPUBoost,omitempty"`
}

// readPod decodes a case. API servers round quantities of pods and LimitRanges up to thousandths,
// but not those of VPAs.
func readPod(c testCase) (in podInput, err error) {
	if err := json.Unmarshal(c.objectJSON(), &in); err != nil {
		return in, fmt.Errorf("reading the case: %w", err)
	}
	if in.Pod == nil {
		in.Pod = &corev1.Pod{}
	}
	in.Pod.Namespace = "shop"
	roundAmounts(in.Pod)
	again := &corev1.Pod{} // as it is sent: without maps that hold nothing
	if err := json.Unmarshal(mustJSON(in.Pod), again); err != nil {
		return in, fmt.Errorf("reading the pod again: %w", err)
	}
	in.Pod = again
	for i := range in.LimitRanges {
		in.LimitRanges[i].Namespace = in.Pod.Namespace
		for j := range in.LimitRanges[i].Spec.Limits {
			item := &in.LimitRanges[i].Spec.Limits[j]
			inThousandths(item.Min)
			inThousandths(item.Max)
			inThousandths(item.Default)
		}
	}
	return in, nil
}

func roundAmounts(pod *corev1.Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			inThousandths(list[i].Resources.Requests)
			inThousandths(list[i].Resources.Limits)
		}
	}
	if r := pod.Spec.Resources; r != nil {
		inThousandths(r.Requests)
		inThousandths(r.Limits)
	}
}

func inThousandths(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

// upstreamVPA and celvpaVPA decode the VPA of a case with either side's types.
func (in *podInput) upstreamVPA() (*upstreamv1.VerticalPodAutoscaler, error) {
	v := &upstreamv1.VerticalPodAutoscaler{}
	if err := in.readVPA(v); err != nil {
		return nil, err
	}
	v.Name, v.Namespace = "v", in.Pod.Namespace
	return v, nil
}

func (in *podInput) celvpaVPA() (*vpav1.VerticalPodAutoscaler, error) {
	v := &vpav1.VerticalPodAutoscaler{}
	if err := in.readVPA(v); err != nil {
		return nil, err
	}
	v.Name, v.Namespace = "v", in.Pod.Namespace
	return v, nil
}

func (in *podInput) readVPA(v any) error {
	if len(in.VPA) == 0 {
		return nil
	}
	if err := json.Unmarshal(in.VPA, v); err != nil {
		return fmt.Errorf("reading the VPA: %w", err)
	}
	return nil
}

// recommendedFor is the recommendation for a container; nil = none.
func recommendedFor(v *upstreamv1.VerticalPodAutoscaler, container string) *upstreamv1.RecommendedContainerResources {
	if v.Status.Recommendation == nil {
		return nil
	}
	for i := range v.Status.Recommendation.ContainerRecommendations {
		if r := &v.Status.Recommendation.ContainerRecommendations[i]; r.ContainerName == container {
			return r
		}
	}
	return nil
}

// limited reports whether a LimitRange bounds pods, or containers.
func (in *podInput) limited(kind corev1.LimitType) bool {
	for i := range in.LimitRanges {
		for _, item := range in.LimitRanges[i].Spec.Limits {
			if item.Type == kind && (item.Min != nil || item.Max != nil || item.Default != nil) {
				return true
			}
		}
	}
	return false
}

// bounded are the resources to compare.
var bounded = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// tooMuch reports whether a container's request exceeds its limit, so that API servers refuse its
// pod.
func tooMuch(r corev1.ResourceRequirements, name corev1.ResourceName) bool {
	request, requested := r.Requests[name]
	limit, isLimited := r.Limits[name]
	return requested && isLimited && request.Cmp(limit) > 0
}

// podFault says why an API server would refuse a pod's resources, and the index of the container,
// -1 = the pod. It is empty for a valid pod.
func podFault(pod *corev1.Pod) (index int, name corev1.ResourceName, why string) {
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources
		for _, lists := range []corev1.ResourceList{r.Requests, r.Limits} {
			for name, q := range lists {
				if q.Sign() < 0 {
					return i, name, fmt.Sprintf("%s is %s", name, q.String())
				}
			}
		}
		for _, name := range bounded {
			if tooMuch(r, name) {
				request, limit := r.Requests[name], r.Limits[name]
				return i, name, fmt.Sprintf("container %d requests %s of %s above its limit of %s", i, request.String(), name, limit.String())
			}
		}
	}
	if pod.Spec.Resources == nil {
		return -1, "", ""
	}
	whole := *pod.Spec.Resources
	for _, name := range bounded {
		if tooMuch(whole, name) {
			return -1, name, fmt.Sprintf("the pod requests more %s than its limit", name)
		}
		if most, ok := whole.Limits[name]; ok {
			for i := range pod.Spec.Containers {
				if limit, ok := pod.Spec.Containers[i].Resources.Limits[name]; ok && limit.Cmp(most) > 0 {
					return -1, name, fmt.Sprintf("container %d has a limit of %s of %s, the pod of %s", i, limit.String(), name, most.String())
				}
			}
		}
		if most, ok := mostRequested(whole, name); ok {
			if sum := requestedTogether(pod, name); sum.Cmp(most) > 0 {
				return -1, name, fmt.Sprintf("the containers request %s of %s, the pod %s", sum.String(), name, most.String())
			}
		}
	}
	return -1, "", ""
}

// mostRequested is the most that the containers of a pod may request in total: the pod's request,
// or else its limit. API servers default the pod's request to the sum of its containers'.
func mostRequested(whole corev1.ResourceRequirements, name corev1.ResourceName) (resource.Quantity, bool) {
	if most, ok := whole.Requests[name]; ok {
		return most, true
	}
	most, ok := whole.Limits[name]
	return most, ok
}

// requestedTogether is the total request of a pod's containers by API server rules: the sum of all
// that run side by side, or an init container plus the sidecars before it if that is more.
func requestedTogether(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var running, peak resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		now := running.DeepCopy()
		now.Add(c.Resources.Requests[name])
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running = now.DeepCopy()
		}
		if now.Cmp(peak) > 0 {
			peak = now
		}
	}
	for i := range pod.Spec.Containers {
		running.Add(pod.Spec.Containers[i].Resources.Requests[name])
	}
	if peak.Cmp(running) > 0 {
		return peak
	}
	return running
}
