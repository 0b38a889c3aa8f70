package updater

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celvpa/celvpa/controllers/facts"
)

// mark is the content of a resized pod's annotations.
type mark struct {
	vpa    string // its name
	change facts.PodChange
}

// markAgain retries the annotations of resized pods that failed in earlier cycles, which otherwise
// would describe the old resources forever. Without permission there is no retry: an event has
// reported it.
func (r *run) markAgain(ctx context.Context, pods []*corev1.Pod) {
	for _, pod := range pods {
		m, missing := r.unmarked.Recall(pod.UID)
		if !missing || ctx.Err() != nil {
			continue
		}
		err := r.Actuator.Mark(ctx, pod, m.vpa, m.change)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			r.unmarked.Forget(pod.UID)
		}
		if err != nil {
			r.Log.V(2).Info("cannot annotate a resized pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err.Error())
		}
	}
}
