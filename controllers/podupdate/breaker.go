package podupdate

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
	// absentTime is how long the state of a workload without pods is kept.
	absentTime = time.Hour
	// maxAwaited bounds the evictions per workload that wait for a replacement pod. More would add
	// no information.
	maxAwaited = 64
)

// Breaker counts evictions without effect: those whose replacement pod kept the old resources, as
// the next one's would. It knows workloads by the direct owner of their pods. The rules say how
// many such evictions pause a workload. The zero value is ready for use, and it is safe for
// concurrent use.
type Breaker struct {
	mu   sync.Mutex
	of   map[target.Key]*outcomes
	seen map[types.UID]bool // all pods at the start of the cycle
}

// outcomes are those of the evictions of one workload.
type outcomes struct {
	awaited   []evictedPod                           // without a replacement so far, the oldest first
	had       map[string]corev1.ResourceRequirements // resources of the last pod evicted without effect
	unchanged int                                    // consecutive evictions whose replacement kept its old resources
	last      time.Time                              // time of the last of them
	present   time.Time                              // last time the workload had pods
	rule      string                                 // that pauses its evictions for this reason; empty = none
}

type evictedPod struct {
	uid   types.UID
	had   map[string]corev1.ResourceRequirements
	at    time.Time
	until time.Time // a pod created later is not compared with it
	gone  time.Time // when the cache first lacked it; zero = not yet
}

// Len is how many workloads are remembered.
func (b *Breaker) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.of)
}

// Evicted records an eviction, and that a replacement pod is due within a time.
func (b *Breaker) Evicted(owner target.Key, pod *corev1.Pod, now time.Time, timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.workload(owner)
	o.present = now
	if timeout > 0 && len(o.awaited) < maxAwaited {
		o.awaited = append(o.awaited, evictedPod{uid: pod.UID, had: resourcesNow(pod), at: now, until: now.Add(timeout)})
	}
}

// RestoreUnchanged takes up how many evictions an earlier process saw without effect, and when the last one was. pod is one of the
// workload, with the resources that it has kept.
func (b *Breaker) RestoreUnchanged(owner target.Key, pod *corev1.Pod, unchanged int, last, now time.Time) {
	b.restore(owner, outcomes{unchanged: unchanged, last: last, had: resourcesNow(pod), present: now})
}

// RestoreUnreplaced takes up how many evicted pods an earlier process saw without a replacement, and since when.
func (b *Breaker) RestoreUnreplaced(owner target.Key, unreplaced int, since, now time.Time) {
	b.restore(owner, outcomes{awaited: slices.Repeat([]evictedPod{{at: since, gone: since}}, min(unreplaced, maxAwaited)), present: now})
}

// restore keeps what this process has counted itself.
func (b *Breaker) restore(owner target.Key, o outcomes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[owner] == nil {
		*b.workload(owner) = o
	}
}

// workload is the state of a workload, which it adds. The caller holds mu.
func (b *Breaker) workload(owner target.Key) *outcomes {
	if b.of == nil {
		b.of = map[target.Key]*outcomes{}
	}
	if b.of[owner] == nil {
		b.of[owner] = &outcomes{}
	}
	return b.of[owner]
}

// look matches pods that are new since the last cycle with the evicted pods that they replace, one
// to one and in order of creation. It ignores creation times otherwise, because clocks differ. live
// are the UIDs of all pods.
func (b *Breaker) look(pods []*corev1.Pod, live map[types.UID]bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.seen
	b.seen = live
	if len(b.of) == 0 {
		return
	}
	come := map[target.Key][]*corev1.Pod{}
	for _, pod := range pods {
		owner, _ := target.DirectOwner(pod)
		if o := b.of[owner]; o != nil {
			o.present = now
			if !before[pod.UID] {
				come[owner] = append(come[owner], pod)
			}
		}
	}
	for owner, o := range b.of {
		o.look(come[owner], live, now)
		if len(o.awaited) == 0 && o.unchanged == 0 || now.Sub(o.present) > absentTime {
			delete(b.of, owner)
		}
	}
}

// look matches new pods with evicted ones.
func (o *outcomes) look(come []*corev1.Pod, live map[types.UID]bool, now time.Time) {
	for i := range o.awaited {
		if e := &o.awaited[i]; e.gone.IsZero() && !live[e.uid] {
			e.gone = now
		}
	}
	o.awaited = slices.DeleteFunc(o.awaited, func(e evictedPod) bool {
		return now.After(e.until) && (e.gone.IsZero() || now.Sub(e.gone) > absentTime)
	})
	slices.SortFunc(come, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, pod := range come {
		o.succeeded(pod, now)
	}
}

// succeeded compares a new pod with the eviction that has waited longest for a replacement, if one
// is still in time.
func (o *outcomes) succeeded(pod *corev1.Pod, now time.Time) {
	at := slices.IndexFunc(o.awaited, func(e evictedPod) bool { return !now.After(e.until) })
	if at < 0 { // it came late, the workload was scaled up, or a pod was deleted by others
		o.awaited = o.awaited[min(1, len(o.awaited)):]
		if o.had != nil && !sameResources(o.had, resourcesAsked(pod)) { // the obstacle is gone
			o.reset()
		}
		return
	}
	first := o.awaited[at]
	o.awaited = slices.Delete(o.awaited, at, at+1)
	if !sameResources(first.had, resourcesAsked(pod)) {
		o.reset()
		return
	}
	o.unchanged++
	o.last, o.had = first.at, first.had
}

// reset starts the count again.
func (o *outcomes) reset() { o.unchanged, o.last, o.rule, o.had = 0, time.Time{}, "", nil }

// Reset forgets the evictions that had no effect: the admission controller was away, so there is a reason
// for it, and evictions are paused for that reason. Their replacements that are still to come do not
// count either.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.of {
		o.reset()
		o.awaited = nil
	}
}

// AddTo adds the counts to the facts of a group.
func (b *Breaker) AddTo(owner target.Key, g *facts.Group, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.of[owner]; o != nil {
		o.addTo(g, now)
	}
}

func (o *outcomes) addTo(g *facts.Group, now time.Time) {
	if o.unchanged > 0 {
		g.Unchanged, g.UnchangedAge = o.unchanged, now.Sub(o.last)
	}
	var first time.Time
	for _, e := range o.awaited {
		if e.gone.IsZero() {
			continue
		}
		if g.Unreplaced++; first.IsZero() || e.gone.Before(first) {
			first = e.gone
		}
	}
	if g.Counted { // it may have been scaled down
		g.Unreplaced = max(0, min(g.Unreplaced, g.Configured-g.Live))
	}
	if g.Unreplaced > 0 {
		g.UnreplacedAge = now.Sub(first)
	}
}

// Preview adds to the facts of a group what AddTo would after look, and returns what Held would. It
// changes nothing. pods are all pods of the owner.
func (b *Breaker) Preview(owner target.Key, pods []*corev1.Pod, g *facts.Group, now time.Time) (rule string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[owner] == nil {
		return ""
	}
	o := *b.of[owner]
	o.awaited = slices.Clone(o.awaited)
	live := map[types.UID]bool{}
	for _, pod := range pods {
		live[pod.UID] = true
	}
	o.look(slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return b.seen[pod.UID] }), live, now)
	o.addTo(g, now)
	return o.rule
}

// Hold records the rule that pauses evictions of a workload for this reason; empty = none.
func (b *Breaker) Hold(owner target.Key, rule string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rule != "" || b.of[owner] != nil {
		b.workload(owner).rule = rule
	}
}

// Held is the rule that pauses evictions of a workload for this reason; empty = none.
func (b *Breaker) Held(owner target.Key) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.of[owner]; o != nil {
		return o.rule
	}
	return ""
}

// resourcesNow are the resources that a pod runs with, by container: allocated by the node, else
// from the spec. Pod-level resources have the empty name.
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

// resourcesAsked are the resources in the spec of a pod, by container.
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

// sameResources compares CPU and memory of all containers that were there before.
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
