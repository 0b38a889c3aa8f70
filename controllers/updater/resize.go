package updater

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

// resizeClock remembers since when pods are being resized, and which resizes were sent over others. It is keyed by UID, so a new pod
// of the same name starts afresh (UPSTREAM.md Appendix B 9). It is safe for concurrent use.
type resizeClock struct {
	mu sync.Mutex
	of map[types.UID]underWay
}

// underWay is what is remembered of a pod that is being resized.
type underWay struct {
	since      time.Time
	replaced   int // resizes that were sent over others
	replacedAt time.Time
}

// seen notes a pod's state and returns since when it is being resized, and how often that was replaced; zero when it is not.
func (c *resizeClock) seen(pod *corev1.Pod, now time.Time) underWay {
	status, _, _ := facts.ResizeOf(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	if status == facts.NoResize {
		delete(c.of, pod.UID)
		return underWay{}
	}
	if c.of == nil {
		c.of = map[types.UID]underWay{}
	}
	if _, known := c.of[pod.UID]; !known {
		c.of[pod.UID] = underWay{since: now}
	}
	return c.of[pod.UID]
}

// replaced notes that another resize was sent over one that is under way.
func (c *resizeClock) replaced(uid types.UID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, known := c.of[uid]; known {
		one.replaced++
		one.replacedAt = now
		c.of[uid] = one
	}
}

// keep forgets pods that are gone.
func (c *resizeClock) keep(live map[types.UID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.of {
		if !live[uid] {
			delete(c.of, uid)
		}
	}
}
