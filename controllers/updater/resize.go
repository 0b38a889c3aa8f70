package updater

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

// resizeClock remembers since when pods are being resized, and which resizes replaced others.
type resizeClock struct {
	memory[types.UID, underWay]
}

// underWay is the resize of a pod that goes on.
type underWay struct {
	since      time.Time
	replaced   int // resizes that replaced others
	replacedAt time.Time
}

// seen notes a pod's state and returns its resize; zero when there is none.
func (c *resizeClock) seen(pod *corev1.Pod, now time.Time) (resize underWay) {
	status, _, _ := facts.ResizeOf(pod)
	c.change(pod.UID, func(one underWay, known bool) (underWay, bool) {
		if status == facts.NoResize {
			return underWay{}, false
		}
		if !known {
			one.since = now
		}
		resize = one
		return one, true
	})
	return resize
}

// replaced notes that another resize replaced one that goes on.
func (c *resizeClock) replaced(uid types.UID, now time.Time) {
	c.change(uid, func(one underWay, known bool) (underWay, bool) {
		one.replaced++
		one.replacedAt = now
		return one, known
	})
}
