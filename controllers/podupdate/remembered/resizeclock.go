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

// Note notes whether a pod is being resized.
func (c *ResizeClock) Note(pod *corev1.Pod, now time.Time) {
	resize, goesOn := c.At(pod, now)
	c.change(pod.UID, func(UnderWay, bool) (UnderWay, bool) { return resize, goesOn })
}

// At returns the resize of a pod, and whether there is one. One that was not noted is new.
func (c *ResizeClock) At(pod *corev1.Pod, now time.Time) (resize UnderWay, goesOn bool) {
	if status, _, _ := facts.ResizeOf(pod); status == facts.NoResize {
		return UnderWay{}, false
	}
	resize, known := c.Recall(pod.UID)
	if !known {
		resize.Since = now
	}
	return resize, true
}

// Replaced notes that another resize replaced the one in progress.
func (c *ResizeClock) Replaced(uid types.UID, now time.Time) {
	c.change(uid, func(one UnderWay, known bool) (UnderWay, bool) {
		one.Replaced++
		one.ReplacedAt = now
		return one, known
	})
}
