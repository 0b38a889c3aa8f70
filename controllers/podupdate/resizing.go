package podupdate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

// Resizing counts the pods of an owner that a resize disrupts now, except one: those whose resize was
// sent or is in progress, and those for which busy holds. A deferred resize disrupts nothing; it may
// be waiting for the very CPU that the end of a startup boost returns. Pods that have not started do
// not count, nor do those that the updater ignores.
func Resizing(pods []*corev1.Pod, except *corev1.Pod, busy func(*corev1.Pod) bool) (n int) {
	for _, pod := range pods {
		if pod.UID == except.UID && pod.Name == except.Name || pod.Status.Phase == corev1.PodPending || IgnoredReason(pod) != "" {
			continue
		}
		status, _, _ := facts.ResizeOf(pod)
		if status == facts.ResizeSent || status == facts.ResizeInProgress || busy(pod) {
			n++
		}
	}
	return n
}
