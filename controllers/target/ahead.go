package target

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const (
	// aheadInterval is the time between two rounds over the targets of all VPAs: well-known ones
	// may have got owners of custom kinds, and scales without a look-up expire after scaleForget.
	aheadInterval = time.Minute
	// aheadWorkers is the number of parallel look-ups, so that one API that hangs does not delay
	// the others.
	aheadWorkers = 4
	// aheadFirst is how long the first round may delay readiness.
	aheadFirst = 15 * time.Second
)

// Ahead looks up the targets of VPAs before their pods are reviewed: when a VPA is created, when
// its target changes, and periodically. Resolver.Top then finds the scales of custom targets, and
// of custom owners above well-known ones, in memory. All fields are required but Namespaces. It
// implements the manager's Runnable.
type Ahead struct {
	Cache      cache.Informers // of VPAs
	Client     client.Reader   // reads VPAs from that cache
	Resolver   *Resolver
	Namespaces Namespaces // served
	Clock      clock.WithTicker
	Log        logr.Logger

	mu    sync.Mutex
	first map[client.ObjectKey]bool // left of the first round; nil before it
	late  bool                      // the first round exceeded aheadFirst
}

// NeedLeaderElection is false: every replica reviews pods.
func (a *Ahead) NeedLeaderElection() bool { return false }

// Ready is an error until all targets at the start have been looked up, successfully or not, or
// aheadFirst has passed: an API that hangs must not prevent a start.
func (a *Ahead) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil || len(a.first) > 0 && !a.late {
		return errors.New("waiting for the first lookup of all targets")
	}
	return nil
}

// Start works until the context ends.
func (a *Ahead) Start(ctx context.Context) error {
	informer, err := a.Cache.GetInformer(ctx, &vpav1.VerticalPodAutoscaler{})
	if err != nil {
		return fmt.Errorf("watching VerticalPodAutoscalers to look their targets up: %w", err)
	}
	queue := workqueue.NewTyped[client.ObjectKey]()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer queue.ShutDown()
	for range aheadWorkers {
		workers.Go(func() {
			for {
				key, ended := queue.Get()
				if ended {
					return
				}
				if ctx.Err() == nil {
					a.look(ctx, key)
				}
				queue.Done(key)
				a.looked(key)
			}
		})
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { a.add(queue, o) },
		UpdateFunc: func(before, now any) {
			was, isVPA := before.(*vpav1.VerticalPodAutoscaler)
			is, still := now.(*vpav1.VerticalPodAutoscaler)
			if !isVPA || !still || !equality.Semantic.DeepEqual(was.Spec.TargetRef, is.Spec.TargetRef) {
				a.add(queue, now)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching VerticalPodAutoscalers to look their targets up: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(handle) }()
	ticker := a.Clock.NewTicker(aheadInterval)
	defer ticker.Stop()
	limit := a.Clock.NewTimer(aheadFirst)
	defer limit.Stop()
	a.round(ctx, queue)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-limit.C():
			a.mu.Lock()
			a.late = true
			a.mu.Unlock()
		case <-ticker.C():
			a.round(ctx, queue)
		}
	}
}

func (a *Ahead) add(queue workqueue.TypedInterface[client.ObjectKey], object any) {
	if v, ok := object.(*vpav1.VerticalPodAutoscaler); ok && v.Spec.TargetRef != nil && a.Namespaces.Serve(v.Namespace) {
		queue.Add(client.ObjectKeyFromObject(v))
	}
}

// round queues all VPAs. If they cannot be listed, the next round retries.
func (a *Ahead) round(ctx context.Context, queue workqueue.TypedInterface[client.ObjectKey]) {
	var list vpav1.VerticalPodAutoscalerList
	if err := a.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		a.Log.Error(err, "cannot look up targets in advance; retrying in 1 minute")
	}
	a.mu.Lock()
	if a.first == nil {
		a.first = map[client.ObjectKey]bool{}
		for i := range list.Items {
			if v := &list.Items[i]; v.Spec.TargetRef != nil && a.Namespaces.Serve(v.Namespace) {
				a.first[client.ObjectKeyFromObject(v)] = true
			}
		}
	}
	a.mu.Unlock()
	for i := range list.Items {
		a.add(queue, &list.Items[i])
	}
}

// look looks up the target of a VPA and its owners. Scales remembers failures and retries.
func (a *Ahead) look(ctx context.Context, key client.ObjectKey) {
	defer func() {
		if p := recover(); p != nil {
			a.Log.Error(fmt.Errorf("panic: %v", p), "panic while looking up a target in advance; please report this",
				"namespace", key.Namespace, "vpa", key.Name, "stack", string(debug.Stack()))
		}
	}()
	var v vpav1.VerticalPodAutoscaler
	if err := a.Client.Get(ctx, key, &v); err != nil {
		if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			a.Log.Error(err, "cannot look up a target in advance; retrying in 1 minute", "namespace", key.Namespace, "vpa", key.Name)
		}
		return
	}
	if _, why := a.Resolver.Selector(ctx, &v); why != nil {
		a.Log.V(4).Info("target unusable", "namespace", key.Namespace, "vpa", key.Name, "reason", why.Message)
	}
}

// looked records that a VPA was processed.
func (a *Ahead) looked(key client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.first, key)
}
