package remembered

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CacheTime is the longest that a cache may take to show what was done to a pod.
const CacheTime = time.Minute

// Sent remembers the resizes that a cache does not show yet, those without an answer included,
// which may have been carried out. With a short interval or a slow API server, the next cycle would
// send them once more and spend the group's budget twice.
type Sent struct {
	Memory[types.UID, resizeTaken]
}

type resizeTaken struct {
	generation int64 // of the pod that was decided on; a resize raises it
	at         time.Time
}

// Note notes that a resize of a pod was carried out, or may have been.
func (s *Sent) Note(pod *corev1.Pod, now time.Time) {
	s.Remember(pod.UID, resizeTaken{generation: pod.Generation, at: now})
}

// Unseen reports whether a pod is as it was before its resize.
func (s *Sent) Unseen(pod *corev1.Pod, now time.Time) (unseen bool) {
	s.change(pod.UID, func(one resizeTaken, known bool) (resizeTaken, bool) {
		unseen = known && pod.Generation <= one.generation && now.Sub(one.at) < CacheTime
		return one, unseen
	})
	return unseen
}
