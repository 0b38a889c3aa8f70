package updater

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

// resizeClock remembers since when pods are being resized. It is keyed by UID, so a new pod of the same name starts
// afresh (UPSTREAM.md Appendix B 9). It is safe for concurrent use.
type resizeClock struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// seen notes a pod's state and returns since when it is being resized; zero when it is not.
func (c *resizeClock) seen(pod *corev1.Pod, now time.Time) time.Time {
	status, _ := facts.ResizeOf(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	if status == facts.NoResize {
		delete(c.since, pod.UID)
		return time.Time{}
	}
	if c.since == nil {
		c.since = map[types.UID]time.Time{}
	}
	if _, known := c.since[pod.UID]; !known {
		c.since[pod.UID] = now
	}
	return c.since[pod.UID]
}

// keep forgets pods that are gone.
func (c *resizeClock) keep(live map[types.UID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.since {
		if !live[uid] {
			delete(c.since, uid)
		}
	}
}
