package updater

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubectl/pkg/util/podutils"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/turns"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// When a pod is processed again (UPSTREAM.md §5.7).
const (
	firstBackOff   = 100 * time.Millisecond
	longestBackOff = 1000 * time.Second
	fewTries       = 5                // tries for a pod without a VPA
	roundTime      = 10 * time.Minute // between two rounds over all boosted pods
)

const (
	// podOwnerIndex finds the pods of a direct owner.
	podOwnerIndex = "celvpa.owner"
	// podBoostedIndex finds the pods that are boosted.
	podBoostedIndex = "celvpa.boosted"
	// vpaTargetIndex finds the VPAs with a target. The webhook has an index of its own, with other keys beside.
	vpaTargetIndex = "celvpa.boosts.target"
)

// indexKey leaves out the API group: owner references hold it with a version, and users may leave it
// out of a target.
func indexKey(k target.Key) string { return k.Kind + "/" + k.Name }

// indexForBoosts adds the indexes of a cache by which Boosts find pods and VPAs.
func indexForBoosts(ctx context.Context, cache client.FieldIndexer) error {
	err := cache.IndexField(ctx, &corev1.Pod{}, podOwnerIndex, ownersOf)
	if err == nil {
		err = cache.IndexField(ctx, &corev1.Pod{}, podBoostedIndex, boosted)
	}
	if err == nil {
		err = cache.IndexField(ctx, &vpav1.VerticalPodAutoscaler{}, vpaTargetIndex, targetOf)
	}
	if err != nil {
		return fmt.Errorf("indexing pods and VerticalPodAutoscalers to end startup boosts: %w", err)
	}
	return nil
}

func ownersOf(o client.Object) []string {
	if owner, ok := target.DirectOwner(o.(*corev1.Pod)); ok {
		return []string{indexKey(owner)}
	}
	return nil
}

func targetOf(o client.Object) []string {
	if v := o.(*vpav1.VerticalPodAutoscaler); v.Spec.TargetRef != nil {
		return []string{indexKey(target.Of(v))}
	}
	return nil
}

func boosted(o client.Object) []string {
	if facts.Boosted(o.(*corev1.Pod)) {
		return []string{"true"}
	}
	return nil
}

type podQueue = workqueue.TypedRateLimitingInterface[client.ObjectKey]

// queue returns an empty queue, in which namespaces take turns.
func (b *Boosts) queue() podQueue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[client.ObjectKey](firstBackOff, longestBackOff)
	return turns.NewRateLimitingQueue(limiter, b.Clock, func(pod client.ObjectKey) string { return pod.Namespace })
}

// NeedLeaderElection keeps a second replica idle.
func (b *Boosts) NeedLeaderElection() bool { return true }

// Start works until the context ends. Its work queue holds pods that changed, pods whose boost is about to end, and every 10 minutes
// all boosted pods.
func (b *Boosts) Start(ctx context.Context) error {
	queue := b.queue()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer queue.ShutDown()
	for range max(b.workers, 1) {
		workers.Go(func() {
			for b.next(ctx, queue) {
			}
		})
	}
	for _, watch := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{{&corev1.Pod{}, b.podEvents(queue)}, {&vpav1.VerticalPodAutoscaler{}, b.vpaEvents(ctx, queue)}} {
		informer, err := b.cache.GetInformer(ctx, watch.object)
		if err != nil {
			return fmt.Errorf("watching pods and VerticalPodAutoscalers to end startup boosts: %w", err)
		}
		handles, err := informer.AddEventHandler(watch.handler)
		if err != nil {
			return fmt.Errorf("watching pods and VerticalPodAutoscalers to end startup boosts: %w", err)
		}
		defer func() { _ = informer.RemoveEventHandler(handles) }()
	}
	cycle.Every(ctx, b.Clock, roundTime, func() { b.all(ctx, queue) })
	return nil
}

// next waits for the next pod of the queue and processes it. It returns false when the queue has
// shut down.
func (b *Boosts) next(ctx context.Context, queue podQueue) bool {
	key, ended := queue.Get()
	if ended {
		return false
	}
	defer queue.Done(key)
	if ctx.Err() != nil {
		return true
	}
	switch again := b.look(ctx, key); {
	case again.after > 0:
		queue.Forget(key)
		queue.AddAfter(key, again.after)
	case again.backOff && !(again.limited && queue.NumRequeues(key) >= fewTries):
		queue.AddRateLimited(key)
	default:
		queue.Forget(key)
	}
	return true
}

// podEvents queues pods that are added or changed.
func (b *Boosts) podEvents(queue podQueue) toolscache.ResourceEventHandler {
	add := func(o any) {
		if pod, ok := o.(*corev1.Pod); ok && b.concerns(pod) {
			queue.Add(client.ObjectKeyFromObject(pod))
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, now any) { add(now) }}
}

// concerns reports whether a pod may have a boost that is over: it is boosted and ready.
func (b *Boosts) concerns(pod *corev1.Pod) bool {
	return podupdate.IgnoredReason(pod) == "" && b.Namespaces.Serve(pod.Namespace) && facts.Boosted(pod) && podutils.IsPodReady(pod)
}

// vpaEvents queues the boosted pods of a namespace when a VPA in it is added, or changes its spec
// or its choice of rules. It ignores the VPAs at the start, when all pods are queued anyway.
func (b *Boosts) vpaEvents(ctx context.Context, queue podQueue) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, atStart bool) {
			if v, ok := o.(*vpav1.VerticalPodAutoscaler); ok && !atStart {
				b.all(ctx, queue, client.InNamespace(v.Namespace))
			}
		},
		UpdateFunc: func(before, now any) {
			was, isVPA := before.(*vpav1.VerticalPodAutoscaler)
			is, still := now.(*vpav1.VerticalPodAutoscaler)
			if isVPA && still && (was.Generation != is.Generation || !maps.Equal(was.Labels, is.Labels) || !maps.Equal(was.Annotations, is.Annotations)) {
				b.all(ctx, queue, client.InNamespace(is.Namespace))
			}
		},
	}
}

// all queues all boosted pods, or those of a namespace. If they cannot be listed, the next round
// retries.
func (b *Boosts) all(ctx context.Context, queue podQueue, where ...client.ListOption) {
	var list corev1.PodList
	where = append(where, client.MatchingFields{podBoostedIndex: "true"}, client.UnsafeDisableDeepCopy)
	if err := b.Client.List(ctx, &list, where...); err != nil {
		b.Log.Error(err, "cannot list pods; retrying startup boosts in 10 minutes")
		return
	}
	for i := range list.Items {
		if pod := &list.Items[i]; b.concerns(pod) {
			queue.Add(client.ObjectKeyFromObject(pod))
		}
	}
}
