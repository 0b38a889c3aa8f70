package updater

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The states of a resize under way (UPSTREAM.md §5.6); empty means that there is none.
const (
	resizeInProgress = "InProgress"
	resizeDeferred   = "Deferred"
	resizeInfeasible = "Infeasible"
	resizeError      = "Error"
	resizeUnknown    = "Unknown"
)

// resizeStatus reads the pod's conditions. A pending resize says more than one in progress.
func resizeStatus(pod *corev1.Pod) string {
	status := ""
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case corev1.PodResizePending:
			switch c.Reason {
			case corev1.PodReasonDeferred:
				return resizeDeferred
			case corev1.PodReasonInfeasible:
				return resizeInfeasible
			}
			return resizeUnknown
		case corev1.PodResizeInProgress:
			switch {
			case c.Reason == corev1.PodReasonError:
				status = resizeError
			case c.Reason == "" && c.Message == "":
				status = resizeInProgress
			default:
				status = resizeUnknown
			}
		}
	}
	return status
}

// resizeClock remembers since when pods are being resized. It is keyed by UID, so a new pod of the same name starts
// afresh (UPSTREAM.md Appendix B 9).
type resizeClock struct {
	since map[types.UID]time.Time
}

// age notes a pod's state and returns for how long it has been resized.
func (c *resizeClock) age(uid types.UID, status string, now time.Time) time.Duration {
	if status == "" {
		delete(c.since, uid)
		return 0
	}
	if c.since == nil {
		c.since = map[types.UID]time.Time{}
	}
	if _, known := c.since[uid]; !known {
		c.since[uid] = now
	}
	return now.Sub(c.since[uid])
}

// keep forgets pods that are gone.
func (c *resizeClock) keep(live map[types.UID]bool) {
	for uid := range c.since {
		if !live[uid] {
			delete(c.since, uid)
		}
	}
}
