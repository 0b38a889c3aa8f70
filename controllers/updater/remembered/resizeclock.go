package remembered

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

// ResizeClock remembers when resizes in progress were first seen, and how often one replaced another.
type ResizeClock struct {
	Memory[types.UID, UnderWay]
}

// UnderWay is a pod's resize in progress.
type UnderWay struct {
	Since      time.Time
	Replaced   int // resizes that replaced others
	ReplacedAt time.Time
}

// Seen notes a pod's state and returns its resize; zero when there is none.
func (c *ResizeClock) Seen(pod *corev1.Pod, now time.Time) (resize UnderWay) {
	status, _, _ := facts.ResizeOf(pod)
	c.change(pod.UID, func(one UnderWay, known bool) (UnderWay, bool) {
		if status == facts.NoResize {
			return UnderWay{}, false
		}
		if !known {
			one.Since = now
		}
		resize = one
		return one, true
	})
	return resize
}

// Replaced notes that another resize replaced the one in progress.
func (c *ResizeClock) Replaced(uid types.UID, now time.Time) {
	c.change(uid, func(one UnderWay, known bool) (UnderWay, bool) {
		one.Replaced++
		one.ReplacedAt = now
		return one, known
	})
}
