package updater

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

const (
	// absentTime is how long a workload without pods is remembered.
	absentTime = time.Hour
	// maxAwaited bounds of how many evicted pods of a workload the successors are waited for. The others tell no more.
	maxAwaited = 64
)

// breaker remembers what came of evictions: a pod whose successor comes with the resources that it had was evicted in vain, and
// the next one would be, too. Workloads are known by the direct owner of their pods. How many such evictions are too many is a
// matter of the rules. The zero value is ready for use, and it is safe for concurrent use.
type breaker struct {
	mu   sync.Mutex
	of   map[target.Key]*outcomes
	seen map[types.UID]bool      // the pods there were at the start of the cycle
	gone map[types.UID]time.Time // pods that were evicted, or perhaps were, and when; for as long as a cache shows them
}

// outcomes are what came of the evictions of one workload.
type outcomes struct {
	awaited   []evictedPod                           // whose successors have not come, the oldest first
	had       map[string]corev1.ResourceRequirements // what the last pod had that was evicted in vain
	unchanged int                                    // successors in a row that came unchanged
	last      time.Time                              // when the last pod that has such a successor was evicted
	present   time.Time                              // when it had pods last
	rule      string                                 // that keeps it from being evicted for this reason; empty = none does
}

type evictedPod struct {
	had   map[string]corev1.ResourceRequirements
	at    time.Time
	until time.Time // a pod that comes later is no successor
}

// leaves notes that a pod was evicted, or that nobody said whether it was: until a cache shows what became of it, or should have, it
// counts as gone.
func (b *breaker) leaves(uid types.UID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone == nil {
		b.gone = map[types.UID]time.Time{}
	}
	b.gone[uid] = now
}

// evicted notes that a pod was evicted, and that a successor is due within a time.
func (b *breaker) evicted(owner target.Key, pod *corev1.Pod, now time.Time, timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[target.Key]*outcomes{}
	}
	o := b.of[owner]
	if o == nil {
		o = &outcomes{}
		b.of[owner] = o
	}
	o.present = now
	if timeout > 0 && len(o.awaited) < maxAwaited {
		o.awaited = append(o.awaited, evictedPod{had: resourcesNow(pod), at: now, until: now.Add(timeout)})
	}
}

// isGone reports whether a pod was evicted, or may have been. A cache may not know that yet.
func (b *breaker) isGone(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, gone := b.gone[uid]
	return gone
}

// look compares pods that have come since the last cycle with those that they come after: each with one, in the order in which
// both were. It takes no notice of clocks, which need not agree. live are the UIDs of all pods there are.
func (b *breaker) look(pods []corev1.Pod, live map[types.UID]bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.seen
	b.seen = live
	for uid, at := range b.gone {
		if !live[uid] || now.Sub(at) >= cacheTime {
			delete(b.gone, uid)
		}
	}
	if len(b.of) == 0 {
		return
	}
	come := map[target.Key][]*corev1.Pod{}
	for i := range pods {
		owner, _ := target.DirectOwner(&pods[i])
		if o := b.of[owner]; o != nil {
			o.present = now
			if !before[pods[i].UID] {
				come[owner] = append(come[owner], &pods[i])
			}
		}
	}
	for owner, o := range b.of {
		o.awaited = slices.DeleteFunc(o.awaited, func(e evictedPod) bool { return now.After(e.until) })
		list := come[owner]
		slices.SortFunc(list, func(a, c *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(c.CreationTimestamp.Time), strings.Compare(a.Name, c.Name))
		})
		for _, pod := range list {
			o.succeeded(pod)
		}
		if len(o.awaited) == 0 && (o.unchanged == 0 || now.Sub(o.present) > absentTime) {
			delete(b.of, owner)
		}
	}
}

// succeeded compares a pod with the one that has waited longest for a successor.
func (o *outcomes) succeeded(pod *corev1.Pod) {
	if len(o.awaited) == 0 { // the workload was scaled up, or somebody else deleted a pod
		if o.had != nil && !sameResources(o.had, resourcesAsked(pod)) { // what was in the way is mended
			o.reset()
		}
		return
	}
	first := o.awaited[0]
	o.awaited = o.awaited[1:]
	if !sameResources(first.had, resourcesAsked(pod)) {
		o.reset()
		return
	}
	o.unchanged++
	o.last, o.had = first.at, first.had
}

// reset begins anew.
func (o *outcomes) reset() { o.unchanged, o.last, o.rule, o.had = 0, time.Time{}, "", nil }

// tell completes what is known of a group.
func (b *breaker) tell(owner target.Key, g *facts.Group, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.of[owner]; o != nil && o.unchanged > 0 {
		g.Unchanged, g.UnchangedAge = o.unchanged, now.Sub(o.last)
	}
}

// hold notes the rule that leaves a workload alone for this reason; empty = none does any more.
func (b *breaker) hold(owner target.Key, rule string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.of[owner]; o != nil {
		o.rule = rule
	}
}

// held is the rule that leaves a workload alone for this reason; empty = none.
func (b *breaker) held(owner target.Key) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.of[owner]; o != nil {
		return o.rule
	}
	return ""
}

// resourcesNow are what a pod runs with: what its node granted, else what it asks for. Those of the pod as a whole have no name.
func resourcesNow(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	out := resourcesAsked(pod)
	for i := range pod.Spec.Containers {
		requests, limits := facts.CurrentResources(pod, i)
		out[pod.Spec.Containers[i].Name] = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	if whole := pod.Status.Resources; whole != nil && facts.PodLevel(pod) != nil {
		out[""] = *whole
	}
	return out
}

// resourcesAsked are what a pod asks for.
func resourcesAsked(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	out := make(map[string]corev1.ResourceRequirements, len(pod.Spec.Containers)+1)
	for i := range pod.Spec.Containers {
		out[pod.Spec.Containers[i].Name] = pod.Spec.Containers[i].Resources
	}
	if whole := facts.PodLevel(pod); whole != nil {
		out[""] = *whole
	}
	return out
}

// sameResources compares CPU and memory of what was there before with what is there after. What else is there after does not count.
func sameResources(before, after map[string]corev1.ResourceRequirements) bool {
	for name, had := range before {
		has, ok := after[name]
		if !ok || !sameList(had.Requests, has.Requests) || !sameList(had.Limits, has.Limits) {
			return false
		}
	}
	return true
}

func sameList(a, b corev1.ResourceList) bool {
	for _, name := range facts.ScaledResources {
		x, inA := a[name]
		y, inB := b[name]
		if inA != inB || inA && x.Cmp(y) != 0 {
			return false
		}
	}
	return true
}
