// Package boosts ends the startup boosts of pods (UPSTREAM.md §5.7, Appendix A 3). Its work queue
// holds pods that changed, pods whose boost is about to end, and every 10 minutes all boosted pods.
// The rules say when a boost is over.
package boosts

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

	"github.com/celvpa/celvpa/controllers/decisions"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
	"github.com/celvpa/celvpa/controllers/updater/counters"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// Controller ends startup boosts, independently of the updater's cycles and of the admission
// controller. All fields but Namespaces, Turn and Beside are required. It implements the manager's
// Runnable; do not start it with gate CPUStartupBoost off.
type Controller struct {
	Cache      cache.Informers // of pods and VPAs
	Client     client.Client   // reads from that cache, which Index has indexed
	Actuator   actuation.Actuator
	Resolver   *target.Resolver
	Rules      func() *compile.Rulebook // the rules in force, read for each pod
	Shadows    *policy.Shadows
	Namespaces target.Namespaces
	Workers    int // pods that are processed in parallel, at least 1
	// Turn waits for the rate limit of resizes; nil = unlimited.
	Turn func(context.Context) error
	// Beside reports whether another actor, such as the updater, is changing a pod, which then
	// counts as disrupted; nil = none.
	Beside func(*corev1.Pod) bool

	Clock     clock.WithTicker
	Log       logr.Logger
	Decisions *decisions.Log // nil = none are kept

	mu   sync.Mutex
	sent map[client.ObjectKey]sentResize
}

// sentResize is a resize that the cache may not show yet.
type sentResize struct {
	uid   types.UID
	notes []string  // names of the annotations to remove
	at    time.Time // zero while it waits for the rate limit
}

const (
	// settleTime is how long the cache may take to show a resize; then the pod is processed
	// again.
	settleTime = time.Minute
	// slack is added to the rest of a boost, so that it is over when its pod is processed.
	slack = 100 * time.Millisecond
)

// NeedLeaderElection keeps a second replica idle.
func (b *Controller) NeedLeaderElection() bool { return true }

// again is when a pod is processed again, unless it changes before; the zero value is never.
type again struct {
	after   time.Duration // 0 = unknown
	backOff bool          // with exponential back-off
	limited bool          // a few times only
}

// look ends the startup boost of a pod if the rules say so. A panic affects this pod only.
func (b *Controller) look(ctx context.Context, key client.ObjectKey) (next again) {
	log := b.Log.WithValues("namespace", key.Namespace, "pod", key.Name)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "panic; please report this", "consequence", "startup boost continues", "stack", string(debug.Stack()))
			next = again{backOff: true}
		}
	}()
	var pod corev1.Pod
	if err := b.Client.Get(ctx, key, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			b.settled(key)
			return again{}
		}
		log.Error(err, "startup boost continues; retrying")
		return again{backOff: true}
	}
	if b.unseen(&pod) {
		return again{backOff: true}
	}
	if !b.concerns(&pod) {
		return again{}
	}
	v, err := b.vpaOf(ctx, &pod)
	if err != nil {
		log.V(4).Info("startup boost continues; retrying", "reason", err.Error())
		return again{backOff: true}
	}
	if v == nil {
		log.V(4).Info("startup boost continues: no VPA controls the pod")
		return again{backOff: true, limited: true}
	}
	log = log.WithValues("vpa", v.Object.Name)
	if err := v.Rules.Err; err != nil { // the VPA's condition says so; admission boosts by the default rules, too
		log.V(4).Info("startup boost ends by the default rules", "reason", err.Error())
	}
	return b.decide(ctx, &pod, v, log)
}

// vpaOf is the VPA that ends the startup boost of a pod, whatever its update mode; nil = none.
func (b *Controller) vpaOf(ctx context.Context, pod *corev1.Pod) (*matcher.VPA, error) {
	top, err := b.Resolver.Topmost(ctx, pod)
	if err != nil || top == nil {
		return nil, err
	}
	var list vpav1.VerticalPodAutoscalerList
	err = b.Client.List(ctx, &list, client.InNamespace(top.Namespace), client.MatchingFields{vpaTargetIndex: indexKey(top.Key)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the VerticalPodAutoscalers of %s: %w", top.Key, err)
	}
	rules := b.Rules()
	candidates := make([]*matcher.VPA, len(list.Items))
	for i := range list.Items {
		candidates[i] = matcher.New(rules, &list.Items[i], b.Log)
	}
	return matcher.Match(ctx, matcher.Boost, top, candidates, pod, nil), nil
}

// decide asks the rules about a pod and carries the verdict out.
func (b *Controller) decide(ctx context.Context, pod *corev1.Pod, v *matcher.VPA, log logr.Logger) again {
	a, err := b.assess(ctx, pod, v.Object, v.Rules.Plan, nil, log)
	if err != nil {
		log.Error(err, "startup boost continues; retrying")
		return again{backOff: true}
	}
	p, beside := a.Pod, a.beside
	verdict := b.reserve(v.Rules.Plan, p, &a.group, beside)
	b.audit(v.Rules.Shadows, a.request, p, a.group, verdict, log)
	policy.Report(log, "startup boost continues", verdict.Err)
	log.V(5).Info("startup boost decided", "do", verdict.Do, "rule", verdict.Rule, "reason", verdict.Reason)
	over, remaining := false, time.Duration(0)
	for i := range p.Change.Containers {
		boost := &p.Change.Containers[i].Boost
		over = over || boost.Over
		if boost.On && boost.Remaining > 0 && (remaining == 0 || boost.Remaining < remaining) {
			remaining = boost.Remaining
		}
	}
	switch {
	case podupdate.Resizes(verdict.Do):
		p.Change = podupdate.ChangeOf(p, verdict)
		return b.end(ctx, p, remaining, verdict, counters.Of(v.Object, len(beside)), log)
	case verdict.Do == facts.DoWait && !over && remaining > 0:
		return again{after: remaining + slack}
	case verdict.Do == facts.DoWait:
		return again{backOff: true}
	}
	return again{}
}

// reserve asks the rules about a pod. If they resize it, its place in the budget is taken, so that
// no other worker takes it. Pods of the group whose resize is in progress count as disrupted.
func (b *Controller) reserve(plan *engine.Plan, p *podupdate.Pod, group *facts.Group, beside []*corev1.Pod) engine.Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	group.Disrupted += b.disrupted(p.PodState.Pod, beside)
	verdict := p.DecideUnboost(plan, *group, nil)
	if podupdate.Resizes(verdict.Do) {
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

// isSent reports whether a pod was sent a resize that the cache does not show completely: the
// annotations follow the resize. The caller holds mu.
func (b *Controller) isSent(pod *corev1.Pod) bool {
	sent, ok := b.sent[client.ObjectKeyFromObject(pod)]
	return ok && sent.uid == pod.UID && (sent.at.IsZero() || b.Clock.Since(sent.at) < settleTime) &&
		slices.ContainsFunc(sent.notes, func(name string) bool { _, there := pod.Annotations[name]; return there })
}

// Ending reports whether a boost of a pod is ending and the cache does not show it yet.
func (b *Controller) Ending(pod *corev1.Pod) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isSent(pod)
}

// unseen is isSent, and forgets a resize that the cache shows.
func (b *Controller) unseen(pod *corev1.Pod) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isSent(pod) {
		return true
	}
	delete(b.sent, client.ObjectKeyFromObject(pod))
	return false
}

// settled forgets the resize of a pod.
func (b *Controller) settled(key client.ObjectKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sent, key)
}

// settles starts the wait for the cache.
func (b *Controller) settles(key client.ObjectKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.sent[key]
	sent.at = b.Clock.Now()
	b.sent[key] = sent
}

// end resizes a pod when the rate limit permits. Boosts of other containers may continue.
func (b *Controller) end(ctx context.Context, p *podupdate.Pod, remaining time.Duration, verdict engine.Verdict, c counters.VPA, log logr.Logger) (next again) {
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
				log.Error(err, "startup boost continues; retrying")
			}
			return again{backOff: true}
		}
		var now corev1.Pod // the wait may have been long
		if err := b.Client.Get(ctx, key, &now); err != nil || now.UID != pod.UID {
			return again{backOff: true, limited: true}
		}
	}
	if _, err := b.Actuator.Resize(ctx, pod, p.VPA, p.Change, verdict); err != nil {
		switch {
		case ctx.Err() != nil:
			return again{}
		case apierrors.IsNotFound(err):
			return again{backOff: true, limited: true} // the pod is gone, or the cluster has no resize subresource
		case actuation.Unsent(err):
			log.V(1).Info("startup boost continues; retrying", "why", err.Error())
			return again{backOff: true}
		}
		c.ResizeFailed(counters.Unboost)
		if !actuation.Declined(err) { // it may have succeeded: the cache will show it
			sent = true
			b.settles(key)
		}
		log = log.WithValues("rule", verdict.Rule)
		if facts.PodLevel(pod) != nil && actuation.RefusalOf(err) == facts.RefusedNotSupported {
			log = log.WithValues("hint", "if this cluster cannot resize pods with pod-level resources, set --pod-level-resize=false on the admission controller and the updater")
		}
		log.Error(err, "cannot end the startup boost; retrying")
		return again{backOff: true}
	}
	sent = true
	b.settles(key)
	c.Resized()
	b.record(p, verdict)
	log.Info("startup boost ended", "rule", verdict.Rule, "reason", verdict.Reason)
	after := settleTime // its annotation may still have to be removed
	if remaining > 0 {
		after = min(after, remaining+slack)
	}
	return again{after: after}
}

// audit records what audited overlays would do with the boost of a pod instead.
func (b *Controller) audit(shadows []compile.Shadow, request podupdate.Request, p *podupdate.Pod, group facts.Group, enforced engine.Verdict, log logr.Logger) {
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
