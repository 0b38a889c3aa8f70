package updater

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cacheTime is the longest that a cache is waited for to show what was done to a pod.
const cacheTime = time.Minute

// sent remembers the resizes that a cache does not show yet, also those that nobody answered, which may have been taken. With a
// short interval, or an API server that has much to do, the next cycle would send them once more, and spend the budget of the
// group twice. Its zero value is ready for use, and it is safe for concurrent use.
type sent struct {
	mu sync.Mutex
	of map[types.UID]resizeTaken
}

type resizeTaken struct {
	generation int64 // of the pod that was decided on; a resize raises it
	at         time.Time
}

// note notes that a resize of a pod was taken, or that nobody said whether it was.
func (s *sent) note(pod *corev1.Pod, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[types.UID]resizeTaken{}
	}
	s.of[pod.UID] = resizeTaken{generation: pod.Generation, at: now}
}

// unseen reports whether a pod is as it was before its resize.
func (s *sent) unseen(pod *corev1.Pod, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.of[pod.UID]
	if ok && (pod.Generation > one.generation || now.Sub(one.at) >= cacheTime) {
		delete(s.of, pod.UID)
		return false
	}
	return ok
}

// keep forgets pods that are gone.
func (s *sent) keep(live map[types.UID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.of {
		if !live[uid] {
			delete(s.of, uid)
		}
	}
}
