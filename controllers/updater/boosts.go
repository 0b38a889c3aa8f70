package updater

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Boosts ends the startup boosts of pods (UPSTREAM.md §5.7) beside the cycles of an Updater, with which it shares what
// is remembered, and so the budgets of groups. The rules say when a boost is over. It implements the manager's Runnable.
type Boosts struct {
	*Updater
	cache   cache.Informers             // of pods and VPAs
	workers int                         // pods that are processed in parallel, at least 1
	turn    func(context.Context) error // waits for the rate limit of resizes

	budgets sync.Mutex // held while the rules decide on a pod, and its place in the budget of its group is taken
}

// slack is added to the rest of a boost, so that it is over when its pod is processed.
const slack = 100 * time.Millisecond

// EndBoosts adds the indexes that it needs to a cache, and returns what ends startup boosts. Call it before the cache starts, and
// only with gate CPUStartupBoost.
func (u *Updater) EndBoosts(ctx context.Context, indexer client.FieldIndexer, informers cache.Informers, workers int) (*Boosts, error) {
	if err := indexForBoosts(ctx, indexer); err != nil {
		return nil, err
	}
	u.boosts = u.newBoosts(informers, workers)
	return u.boosts, nil
}

func (u *Updater) newBoosts(informers cache.Informers, workers int) *Boosts {
	return &Boosts{Updater: u, cache: informers, workers: workers, turn: func(ctx context.Context) error { return wait(ctx, u.Limits.Resizes) }}
}

// again is when a pod is processed again, unless it changes before; the zero value is never.
type again struct {
	after   time.Duration // 0 = unknown
	backOff bool          // with exponential back-off
	limited bool          // a few times only
}

// look ends the startup boost of a pod if the rules say so. A panic affects this pod only.
func (b *Boosts) look(ctx context.Context, key client.ObjectKey) (next again) {
	log := b.Log.WithValues("namespace", key.Namespace, "pod", key.Name)
	next = again{backOff: true} // after a panic
	defer b.contain(log, "startup boost continues")
	var pod corev1.Pod
	if err := b.Client.Get(ctx, key, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			return again{}
		}
		log.Error(err, "startup boost continues; retrying")
		return again{backOff: true}
	}
	if b.memory.ResizeUnseen(&pod, b.Clock.Now()) {
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
func (b *Boosts) vpaOf(ctx context.Context, pod *corev1.Pod) (*matcher.VPA, error) {
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

// boostedPod is a boosted pod with what the rules want for it.
type boostedPod struct {
	*podupdate.Pod
	request  podupdate.Request
	group    facts.Group
	siblings []*corev1.Pod // the pods of its owner, with itself
}

// assess finds out what the rules want for a pod.
func (b *Boosts) assess(ctx context.Context, pod *corev1.Pod, v *matcher.VPA, trace *engine.Trace, log logr.Logger) (p boostedPod, err error) {
	limits, err := limitranges.Of(ctx, b.Client, pod.Namespace)
	if err != nil {
		return p, err
	}
	if p.siblings, err = b.siblings(ctx, pod); err != nil {
		return p, err
	}
	template, err := b.Resolver.Template(ctx, pod)
	if err != nil {
		return p, err
	}
	p.request = podupdate.Request{Pod: pod, VPA: v.Object, Limits: limits, Now: b.Clock.Now(), Template: template, Objects: b.Objects}
	var failed []*engine.RuleError
	p.Pod, failed = podupdate.Assess(v.Rules.Plan, p.request, trace)
	policy.Report(log, "values unchanged", failed...)
	p.Resized = b.memory.Resized(pod.UID)
	groups := podupdate.Groups(ctx, b.Resolver, p.siblings, p.request.Now, unknownReplicas(log))
	if g := groups[p.Owner]; g != nil {
		p.group = *g
		b.memory.RecallRates(p.Owner, &p.group, p.request.Now)
	}
	return p, nil
}

// siblings lists the pods of the direct owner of a pod, which share its disruption budget.
func (b *Boosts) siblings(ctx context.Context, pod *corev1.Pod) ([]*corev1.Pod, error) {
	owner, owned := target.DirectOwner(pod)
	if !owned {
		return []*corev1.Pod{pod}, nil
	}
	var list corev1.PodList
	err := b.Client.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFields{podOwnerIndex: indexKey(owner)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", owner, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if other := &list.Items[i]; podupdate.IgnoredReason(other) == "" {
			if direct, ok := target.DirectOwner(other); ok && direct == owner { // the index ignores API groups
				out = append(out, other)
			}
		}
	}
	return out, nil
}

// preview says what would be done about the startup boost of a pod, without doing it. ending is how
// many pods of its owner would be resized before.
func (b *Boosts) preview(ctx context.Context, pod *corev1.Pod, v *matcher.VPA, ending int, trace *engine.Trace) (*podupdate.Pod, engine.Verdict, error) {
	p, err := b.assess(ctx, pod, v, trace, logr.Discard())
	if err != nil {
		return nil, engine.Verdict{}, fmt.Errorf("asking whether the startup boost of pod %s/%s ends: %w", pod.Namespace, pod.Name, err)
	}
	if b.memory.ResizeUnseen(pod, b.Clock.Now()) {
		return p.Pod, engine.Verdict{Do: facts.DoWait, Reason: "The resize that ends its startup boost was sent, and the pod does not show it yet"}, nil
	}
	return p.Pod, b.ask(&p, v.Rules.Plan, ending, trace), nil
}

// ask asks the rules about a pod. Other pods of its group whose resize is in progress count as disrupted, and more.
func (b *Boosts) ask(p *boostedPod, plan *engine.Plan, more int, trace *engine.Trace) engine.Verdict {
	p.group.Disrupted += more + podupdate.Resizing(p.siblings, p.request.Pod, b.busy)
	return p.DecideUnboost(plan, p.group, trace)
}

// decide asks the rules about a pod and carries the verdict out.
func (b *Boosts) decide(ctx context.Context, pod *corev1.Pod, v *matcher.VPA, log logr.Logger) again {
	p, err := b.assess(ctx, pod, v, nil, log)
	if err != nil {
		log.Error(err, "startup boost continues; retrying")
		return again{backOff: true}
	}
	verdict := b.reserve(&p, v.Rules.Plan)
	b.audit(v.Rules.Shadows, "startup boosts", p.request, p.Pod, verdict, log, func(tried *podupdate.Pod, plan *engine.Plan) engine.Verdict {
		return tried.DecideUnboost(plan, p.group, nil)
	})
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
		return b.end(ctx, p, v, remaining, verdict, log)
	case verdict.Do == facts.DoWait && !over && remaining > 0:
		return again{after: remaining + slack}
	case verdict.Do == facts.DoWait:
		return again{backOff: true}
	}
	return again{}
}

// reserve asks the rules about a pod. If they resize it, its place in the budget is taken, so that no other worker takes it.
func (b *Boosts) reserve(p *boostedPod, plan *engine.Plan) engine.Verdict {
	b.budgets.Lock()
	defer b.budgets.Unlock()
	verdict := b.ask(p, plan, 0, nil)
	if podupdate.Resizes(verdict.Do) {
		b.memory.NoteSent(p.request.Pod, endedBoosts(p.Change), time.Time{})
	}
	return verdict
}

// endedBoosts are the annotations that go with the end of startup boosts.
func endedBoosts(change facts.PodChange) (annotations []string) {
	for i := range change.Containers {
		if c := &change.Containers[i]; c.Boost.Over {
			annotations = append(annotations, facts.AnnotationStartupBoost+c.Name)
		}
	}
	return annotations
}

// end resizes a pod when the rate limit permits. Boosts of other containers may continue.
func (b *Boosts) end(ctx context.Context, p boostedPod, v *matcher.VPA, remaining time.Duration, verdict engine.Verdict, log logr.Logger) (next again) {
	pod, counted := p.request.Pod, countersOf(v.Object, len(p.siblings))
	sent := false
	defer func() {
		if sent {
			b.memory.NoteSent(pod, endedBoosts(p.Change), b.Clock.Now())
		} else {
			b.memory.NoteUnsent(pod.UID)
		}
	}()
	if err := b.turn(ctx); err != nil {
		if ctx.Err() == nil {
			log.Error(err, "startup boost continues; retrying")
		}
		return again{backOff: true}
	}
	var now corev1.Pod // the wait may have been long
	if err := b.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil || now.UID != pod.UID {
		return again{backOff: true, limited: true}
	}
	if _, err := b.Actuator.Resize(ctx, pod, v.Object, podupdate.ChangeOf(p.Pod, verdict), verdict); err != nil {
		outcome := actuation.OutcomeOf(err)
		switch {
		case ctx.Err() != nil:
			return again{}
		case apierrors.IsNotFound(err):
			return again{backOff: true, limited: true} // the pod is gone, or the cluster has no resize subresource
		case outcome == podupdate.Left:
			log.V(1).Info("startup boost continues; retrying", "why", err.Error())
			return again{backOff: true}
		}
		counted.resizeFailed(reasonUnboost)
		sent = outcome == podupdate.Unknown // it may have succeeded: the cache will show it
		log = log.WithValues("rule", verdict.Rule)
		if facts.PodLevel(pod) != nil && actuation.RefusalOf(err) == facts.RefusedNotSupported {
			log = log.WithValues("hint", "if this cluster cannot resize pods with pod-level resources, set --pod-level-resize=false on the admission controller and the updater")
		}
		log.Error(err, "cannot end the startup boost; retrying")
		return again{backOff: true}
	}
	sent = true
	counted.resized()
	b.keep(b.Clock.Now(), p.Pod, v.Rules.Plan, podupdate.Action(verdict.Do), verdict)
	log.Info("startup boost ended", "rule", verdict.Rule, "reason", verdict.Reason)
	after := podupdate.CacheTime // its annotation may still have to be removed
	if remaining > 0 {
		after = min(after, remaining+slack)
	}
	return again{after: after}
}
