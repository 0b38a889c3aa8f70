package podupdate

import corev1 "k8s.io/api/core/v1"

// IgnoredReason is why the updater ignores a pod; empty for one that is scheduled, not finished and
// not terminating (UPSTREAM.md §5.1).
func IgnoredReason(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "The pod is terminating"
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return "The pod has finished"
	case pod.Spec.NodeName == "":
		return "The pod has no node"
	}
	return ""
}
