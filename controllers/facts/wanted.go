package facts

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/celvpa/celvpa/engine"
)

// bindWanted adds to a resize under way what it asks for, which is what the pod's spec has, and what would be asked for now: whether
// another resize could end what this one cannot. Both are read from the pod, so that a restart of the updater forgets neither.
func bindWanted(resize *engine.Record, pod *corev1.Pod, change PodChange) {
	after := podAfter(pod, change)
	whole := resourcehelper.PodResourcesOptions{}
	resize.SetRecord("requested", Resources(resourcehelper.PodRequests(pod, whole))).SetRecord("wanted", Resources(resourcehelper.PodRequests(after, whole)))
	differs, raises := false, false
	compare := func(asked, wanted *corev1.ResourceRequirements) {
		differs = differs || alters(asked.Requests, wanted.Requests) || alters(asked.Limits, wanted.Limits)
		before, limited := asked.Limits[corev1.ResourceMemory]
		raises = raises || limited && before.Cmp(wanted.Limits[corev1.ResourceMemory]) < 0
	}
	for i := range pod.Spec.Containers {
		compare(&pod.Spec.Containers[i].Resources, &after.Spec.Containers[i].Resources)
	}
	if whole := PodLevel(pod); whole != nil {
		compare(whole, after.Spec.Resources)
	}
	resize.SetBool("differs", differs).SetBool("raisesMemoryLimit", raises)
}
