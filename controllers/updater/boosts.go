package updater

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// Boosts ends the startup boosts of pods when they are over (UPSTREAM.md §5.7, Appendix A 3). It does not wait for the cycles of
// an Updater, nor for the admission controller: pods are looked at when something happens to them, when a boost is about to
// end, and from time to time. All fields but Namespaces, Turn and Beside are required. It implements the manager's Runnable, and is not
// to be started at all with gate CPUStartupBoost off.
type Boosts struct {
	Cache      cache.Informers // tells of pods and VPAs
	Client     client.Client   // reads from that cache, of which IndexBoosts knows
	Actuator   Actuator
	Resolver   *target.Resolver
	Rules      func() *compile.Rulebook // the rules in force, asked for each pod
	Shadows    *policy.Shadows
	Namespaces target.Namespaces
	Workers    int // how many pods are looked at at once, at least 1
	// Turn waits until one more resize is allowed; nil allows all at once.
	Turn func(context.Context) error
	// Beside reports whether somebody else is changing a pod, which then counts as disrupted; nil knows of nobody.
	Beside func(*corev1.Pod) bool

	Clock clock.WithTicker
	Log   logr.Logger

	mu   sync.Mutex
	sent map[client.ObjectKey]sentResize
}

// sentResize is a resize that the cache may not know of yet.
type sentResize struct {
	uid   types.UID
	notes []string  // names of the annotations that were to be taken off
	at    time.Time // zero while it waits for its turn
}

const (
	// boostSettles is how long the cache has to learn of a resize, and after which a pod is looked at once more.
	boostSettles = time.Minute
	// boostSlack goes on top of what is left of a boost, so that it is over when its pod is looked at.
	boostSlack = 100 * time.Millisecond
)

// NeedLeaderElection keeps a second replica idle.
func (b *Boosts) NeedLeaderElection() bool { return true }

// again says when a pod is looked at once more, unless something happens to it before; the zero value is never.
type again struct {
	after   time.Duration // that much later; 0 where that is not known
	backOff bool          // ever later
	aFew    bool          // and not for ever
}

// look gives a pod back what it had more for its start, if the rules say so. A panic stays with this pod.
func (b *Boosts) look(ctx context.Context, key client.ObjectKey) (next again) {
	log := b.Log.WithValues("namespace", key.Namespace, "pod", key.Name)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "the startup boost of this pod goes on; please report this", "stack", string(debug.Stack()))
			next = again{backOff: true}
		}
	}()
	var pod corev1.Pod
	if err := b.Client.Get(ctx, key, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			b.settled(key)
			return again{}
		}
		log.Error(err, "the startup boost of this pod goes on; trying again")
		return again{backOff: true}
	}
	if b.unseen(&pod) {
		return again{backOff: true}
	}
	if !b.concerns(&pod) {
		return again{}
	}
	candidates, err := b.candidates(ctx, pod.Namespace)
	if err != nil {
		log.Error(err, "the startup boost of this pod goes on; trying again")
		return again{backOff: true}
	}
	v, err := b.Resolver.ControllingVPA(ctx, &pod, candidates, policy.Precedence(b.Rules(), log))
	if err != nil {
		log.V(4).Info("the startup boost of this pod goes on; trying again", "reason", err.Error())
		return again{backOff: true}
	}
	if v == nil {
		log.V(4).Info("the startup boost of this pod goes on: it has no VPA")
		return again{backOff: true, aFew: true}
	}
	log = log.WithValues("vpa", v.Name)
	chosen := policy.For(b.Rules(), v)
	if chosen.Err != nil {
		log.V(4).Info("the startup boost of this pod goes on", "reason", chosen.Err.Error()) // the VPA's condition says so
		return again{}
	}
	return b.decide(ctx, &pod, v, chosen, log)
}

// candidates are the VPAs of a namespace that can be read, be their update mode what it may.
func (b *Boosts) candidates(ctx context.Context, namespace string) ([]*vpav1.VerticalPodAutoscaler, error) {
	var list vpav1.VerticalPodAutoscalerList
	if err := b.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the VerticalPodAutoscalers of namespace %s: %w", namespace, err)
	}
	var out []*vpav1.VerticalPodAutoscaler
	for i := range list.Items {
		if list.Items[i].Unreadable() == "" {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// decide asks the rules about a pod and does what they say.
func (b *Boosts) decide(ctx context.Context, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, chosen compile.Selection, log logr.Logger) again {
	limits, err := limitranges.Of(ctx, b.Client, pod.Namespace)
	if err != nil {
		log.Error(err, "the startup boost of this pod goes on; trying again")
		return again{backOff: true}
	}
	beside, err := b.withOwnerOf(ctx, pod)
	if err != nil {
		log.Error(err, "the startup boost of this pod goes on; trying again")
		return again{backOff: true}
	}
	request := podupdate.Request{Pod: pod, VPA: v, Limits: limits, Now: b.Clock.Now()}
	p, failed := podupdate.Assess(chosen.Plan, request, nil)
	policy.Report(log, "its values are left as they were", failed...)
	groups := podupdate.Groups(ctx, b.Resolver, beside, func(owner target.Key, err error) {
		log.V(4).Info("the replicas of a group are not known", "owner", owner.String(), "error", err.Error())
	})
	var group facts.Group
	if g := groups[p.Owner]; g != nil {
		group = *g
	}
	verdict := b.reserve(chosen.Plan, p, &group, beside)
	b.audit(chosen.Shadows, request, p, group, verdict, log)
	policy.Report(log, "its startup boost goes on", verdict.Err)
	log.V(5).Info("decided about the startup boost", "do", verdict.Do, "rule", verdict.Rule, "reason", verdict.Reason)
	over, remaining := false, time.Duration(0)
	for i := range p.Change.Containers {
		boost := &p.Change.Containers[i].Boost
		over = over || boost.Over
		if boost.On && boost.Remaining > 0 && (remaining == 0 || boost.Remaining < remaining) {
			remaining = boost.Remaining
		}
	}
	switch verdict.Do {
	case facts.DoInPlace, facts.DoInPlaceCPU:
		if verdict.Do == facts.DoInPlaceCPU {
			p.Change = p.Change.WithoutMemory(pod)
		}
		return b.end(ctx, p, remaining, verdict, countedOf(v, len(beside)), log)
	case facts.DoWait:
		if !over && remaining > 0 {
			return again{after: remaining + boostSlack}
		}
		return again{backOff: true}
	}
	return again{}
}

// withOwnerOf lists the pods that count for the budget of a pod: those of its direct owner.
func (b *Boosts) withOwnerOf(ctx context.Context, pod *corev1.Pod) ([]*corev1.Pod, error) {
	owner, owned := target.DirectOwner(pod)
	if !owned {
		return []*corev1.Pod{pod}, nil
	}
	var list corev1.PodList
	err := b.Client.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFields{podOwnerIndex: podOwnerKey(owner)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", owner, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if other := &list.Items[i]; alive(other) {
			if direct, ok := target.DirectOwner(other); ok && direct == owner { // the index knows no API groups
				out = append(out, other)
			}
		}
	}
	return out, nil
}

// reserve asks the rules about a pod. Where they want it to be resized its place in the budget is taken, so that no other worker
// takes it, too. Disrupted are those pods beside it whose resize goes on; one that waits on its node disrupts nothing, and may
// wait for the very CPU that others are to give back.
func (b *Boosts) reserve(plan *engine.Plan, p *podupdate.Pod, group *facts.Group, beside []*corev1.Pod) engine.Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range beside {
		if other.UID == p.PodState.Pod.UID || other.Status.Phase == corev1.PodPending {
			continue
		}
		status, _, _ := facts.ResizeOf(other)
		if status == facts.ResizeSent || status == facts.ResizeInProgress || b.isSent(other) || b.Beside != nil && b.Beside(other) {
			group.Disrupted++
		}
	}
	verdict := p.DecideUnboost(plan, *group, nil)
	if verdict.Do == facts.DoInPlace || verdict.Do == facts.DoInPlaceCPU {
		if b.sent == nil {
			b.sent = map[client.ObjectKey]sentResize{}
		}
		sent := sentResize{uid: p.PodState.Pod.UID}
		for i := range p.Change.Containers {
			if c := &p.Change.Containers[i]; c.Boost.Over {
				sent.notes = append(sent.notes, facts.AnnotationStartupBoost+c.Name)
			}
		}
		b.sent[client.ObjectKeyFromObject(p.PodState.Pod)] = sent
	}
	return verdict
}

// isSent reports whether a pod was sent a resize of which the cache does not know, or not all: the annotations come after it. The
// caller holds mu.
func (b *Boosts) isSent(pod *corev1.Pod) bool {
	sent, ok := b.sent[client.ObjectKeyFromObject(pod)]
	return ok && sent.uid == pod.UID && (sent.at.IsZero() || b.Clock.Since(sent.at) < boostSettles) &&
		slices.ContainsFunc(sent.notes, func(name string) bool { _, there := pod.Annotations[name]; return there })
}

// Ending reports whether a boost of a pod is being ended, which the cache does not show yet.
func (b *Boosts) Ending(pod *corev1.Pod) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isSent(pod)
}

// unseen is isSent, and forgets a resize that the cache knows of.
func (b *Boosts) unseen(pod *corev1.Pod) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isSent(pod) {
		return true
	}
	delete(b.sent, client.ObjectKeyFromObject(pod))
	return false
}

// settled forgets what was sent to a pod.
func (b *Boosts) settled(key client.ObjectKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sent, key)
}

// settles begins to wait for the cache.
func (b *Boosts) settles(key client.ObjectKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.sent[key]
	sent.at = b.Clock.Now()
	b.sent[key] = sent
}

// end resizes a pod when it is its turn. Boosts of other containers may go on.
func (b *Boosts) end(ctx context.Context, p *podupdate.Pod, remaining time.Duration, verdict engine.Verdict, c counted, log logr.Logger) (next again) {
	pod := p.PodState.Pod
	key := client.ObjectKeyFromObject(pod)
	sent := false
	defer func() {
		if !sent {
			b.settled(key)
		}
	}()
	if b.Turn != nil {
		if err := b.Turn(ctx); err != nil {
			if ctx.Err() == nil {
				log.Error(err, "the startup boost of this pod goes on; trying again")
			}
			return again{backOff: true}
		}
		var now corev1.Pod // that may have taken a while
		if err := b.Client.Get(ctx, key, &now); err != nil || now.UID != pod.UID {
			return again{backOff: true, aFew: true}
		}
	}
	if _, err := b.Actuator.Resize(ctx, pod, p.VPA, p.Change, verdict); err != nil {
		switch {
		case ctx.Err() != nil:
			return again{}
		case apierrors.IsNotFound(err):
			return again{backOff: true, aFew: true} // it is gone, and the cache will know; else the cluster cannot resize
		}
		c.resizeFailed(reasonUnboost)
		if !unsent(err) && !declined(err) { // it may have been carried out: the cache will show
			sent = true
			b.settles(key)
		}
		log.Error(err, "the startup boost could not be ended; trying again", "rule", verdict.Rule)
		return again{backOff: true}
	}
	sent = true
	b.settles(key)
	c.resized()
	log.Info("startup boost ended", "rule", verdict.Rule, "reason", verdict.Reason)
	after := boostSettles // its annotation may still be there
	if remaining > 0 {
		after = min(after, remaining+boostSlack)
	}
	return again{after: after}
}

// audit records what overlays that are not enforced would do with the boost of a pod instead.
func (b *Boosts) audit(shadows []compile.Shadow, request podupdate.Request, p *podupdate.Pod, group facts.Group, enforced engine.Verdict, log logr.Logger) {
	defer policy.UntilPanic(log)
	for _, shadow := range shadows {
		differs := podupdate.ShadowDifferences(shadow.Plan, request, p, enforced, func(tried *podupdate.Pod, plan *engine.Plan) engine.Verdict {
			return tried.DecideUnboost(plan, group, nil)
		})
		if len(differs) > 0 {
			differs[0] = "pod " + request.Pod.Name + ": " + differs[0]
		}
		b.Shadows.Record(request.VPA, shadow, "startup boosts", differs)
	}
}
