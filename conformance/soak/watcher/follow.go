package watcher

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Follow takes note of all that watches deliver, as of the moment in which they do. It waits for nothing: start the cache afterwards.
func (h *History) Follow(ctx context.Context, from cache.Cache) error {
	for _, kind := range []client.Object{&corev1.Pod{}, &appsv1.ReplicaSet{}, &vpav1.VerticalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}, &corev1.LimitRange{}} {
		informer, err := from.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { h.Saw(time.Now(), o.(client.Object)) },
			UpdateFunc: func(_, o any) { h.Saw(time.Now(), o.(client.Object)) },
			DeleteFunc: func(o any) {
				if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = unknown.Obj
				}
				h.Gone(time.Now(), o.(client.Object))
			},
		})
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

// Updated calls each for the pods that admission gave resources, and that were first seen in (after, until].
func (h *History) Updated(after, until time.Time, each func(at time.Time, name key)) {
	type birth struct {
		at   time.Time
		name key
	}
	var born []birth
	h.mu.Lock()
	for name, l := range h.pods {
		if first := l.states[0]; first.is != nil && first.is.updated && first.from.After(after) && !first.from.After(until) {
			born = append(born, birth{first.from, name})
		}
	}
	h.mu.Unlock()
	for _, one := range born {
		each(one.at, one.name)
	}
}
