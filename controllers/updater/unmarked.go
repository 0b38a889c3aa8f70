package updater

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

// unmarked remembers pods that were resized and whose annotations could not be written afterwards, so that they do not tell for ever
// what was before. It is keyed by UID and kept in memory only. Its zero value is ready for use, and it is safe for concurrent use.
type unmarked struct {
	mu sync.Mutex
	of map[types.UID]mark
}

// mark is what annotations are to tell of a resize.
type mark struct {
	vpa    string // its name
	change facts.PodChange
}

// note remembers the mark of a pod; the latest counts.
func (u *unmarked) note(uid types.UID, m mark) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[types.UID]mark{}
	}
	u.of[uid] = m
}

func (u *unmarked) forget(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, uid)
}

func (u *unmarked) recall(uid types.UID) (m mark, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	m, ok = u.of[uid]
	return m, ok
}

// keep forgets pods that are gone.
func (u *unmarked) keep(live map[types.UID]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for uid := range u.of {
		if !live[uid] {
			delete(u.of, uid)
		}
	}
}

// markAgain writes the annotations that could not be written in earlier cycles. What is not permitted is not tried again: the event
// about it was told.
func (r *run) markAgain(ctx context.Context, pods []corev1.Pod) {
	for i := range pods {
		pod := &pods[i]
		m, missing := r.unmarked.recall(pod.UID)
		if !missing || ctx.Err() != nil {
			continue
		}
		err := r.Actuator.Mark(ctx, pod, m.vpa, m.change)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			r.unmarked.forget(pod.UID)
		}
		if err != nil {
			r.Log.V(2).Info("the annotations of a resized pod could not be written", "namespace", pod.Namespace, "pod", pod.Name, "error", err.Error())
		}
	}
}
