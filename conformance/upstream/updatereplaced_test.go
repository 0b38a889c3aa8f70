package upstream

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
)

// mayBeReplaced reports whether another resize may replace one that cannot complete in mode
// InPlace, and whether it may even if the pod is within its bounds.
func (r *updateResult) mayBeReplaced(pod *corev1.Pod) (ends, takenBack bool) {
	if r.mode() != upstreamv1.UpdateModeInPlace || pod.Status.Phase == corev1.PodPending {
		return false, false
	}
	differs, lower, higher := r.compared(pod)
	condition := func(kind corev1.PodConditionType) *corev1.PodCondition {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
		if i < 0 {
			return nil
		}
		return &pod.Status.Conditions[i]
	}
	var since time.Time
	switch pending, progress := condition(corev1.PodResizePending), condition(corev1.PodResizeInProgress); {
	case pending != nil && pending.Reason == corev1.PodReasonDeferred:
		return lower && !higher, lower && !higher
	case pending != nil && pending.Reason == corev1.PodReasonInfeasible:
		return false, false
	case pending != nil:
		since = pending.LastTransitionTime.Time
	case progress != nil && progress.Reason == "" && progress.Message == "":
		return false, false
	case progress != nil:
		since = progress.LastTransitionTime.Time
	case !isUnanswered(pod):
		return false, false
	}
	age := time.Duration(0)
	if !since.IsZero() {
		age = updateNow.Sub(since)
	}
	if seen, ok := r.In.Noticed[pod.Name]; ok && (seen.UID == "" || seen.UID == pod.UID) {
		age = max(age, seen.Age.Duration)
	}
	return differs && age >= time.Hour, false
}

// compared reports whether an update would change what a pod requests, and whether the total of a
// resource would fall or rise.
func (r *updateResult) compared(pod *corev1.Pod) (differs, lower, higher bool) {
	after := r.given(pod)
	var asked, wanted [2]resource.Quantity
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		requests, limits := r.updated(c, c.Resources.Requests, after[i].Requests), r.updated(c, c.Resources.Limits, after[i].Limits)
		for n, name := range bounded {
			asked[n].Add(c.Resources.Requests[name])
			wanted[n].Add(requests[name])
			for _, lists := range [][2]corev1.ResourceList{{c.Resources.Requests, requests}, {c.Resources.Limits, limits}} {
				before, had := lists[0][name]
				now, has := lists[1][name]
				differs = differs || has && (!had || before.Cmp(now) != 0)
			}
		}
	}
	for n := range bounded {
		lower, higher = lower || wanted[n].Cmp(asked[n]) < 0, higher || wanted[n].Cmp(asked[n]) > 0
	}
	return differs, lower, higher
}
