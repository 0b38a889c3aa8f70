package boosts

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/decisions"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// assessed is a boosted pod with what the rules want for it.
type assessed struct {
	*podupdate.Pod
	request podupdate.Request
	group   facts.Group
	beside  []*corev1.Pod // the pods of its owner, with itself
}

// assess finds out what the rules want for a pod.
func (b *Controller) assess(ctx context.Context, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, plan *engine.Plan, trace *engine.Trace, log logr.Logger) (a assessed, err error) {
	limits, err := limitranges.Of(ctx, b.Client, pod.Namespace)
	if err != nil {
		return a, err
	}
	if a.beside, err = b.withOwnerOf(ctx, pod); err != nil {
		return a, err
	}
	template, err := b.Resolver.Template(ctx, pod)
	if err != nil {
		return a, err
	}
	a.request = podupdate.Request{Pod: pod, VPA: v, Limits: limits, Now: b.Clock.Now(), Template: template}
	var failed []*engine.RuleError
	a.Pod, failed = podupdate.Assess(plan, a.request, trace)
	policy.Report(log, "values unchanged", failed...)
	groups := podupdate.Groups(ctx, b.Resolver, a.beside, a.request.Now, func(owner target.Key, err error) {
		log.V(4).Info("replica count of the owner unknown", "owner", owner.String(), "error", err.Error())
	})
	if g := groups[a.Owner]; g != nil {
		a.group = *g
	}
	return a, nil
}

// Preview says what would be done about the startup boost of a pod, without doing it. ending is how
// many pods of its owner would be resized before. The trace may be nil.
func (b *Controller) Preview(ctx context.Context, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, plan *engine.Plan, ending int, trace *engine.Trace) (*podupdate.Pod, engine.Verdict, error) {
	a, err := b.assess(ctx, pod, v, plan, trace, logr.Discard())
	if err != nil {
		return nil, engine.Verdict{}, fmt.Errorf("asking whether the startup boost of pod %s/%s ends: %w", pod.Namespace, pod.Name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isSent(pod) {
		return a.Pod, engine.Verdict{Do: facts.DoWait, Reason: "The resize that ends its startup boost was sent, and the pod does not show it yet"}, nil
	}
	a.group.Disrupted += b.disrupted(pod, a.beside) + ending
	return a.Pod, a.DecideUnboost(plan, a.group, trace), nil
}

// withOwnerOf lists the pods of the direct owner of a pod, which share its disruption budget.
func (b *Controller) withOwnerOf(ctx context.Context, pod *corev1.Pod) ([]*corev1.Pod, error) {
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

// disrupted counts the other pods of a group whose resize is in progress. The caller holds mu.
func (b *Controller) disrupted(pod *corev1.Pod, beside []*corev1.Pod) int {
	return podupdate.Resizing(beside, pod, func(other *corev1.Pod) bool {
		return b.isSent(other) || b.Beside != nil && b.Beside(other)
	})
}

// record records the end of a startup boost.
func (b *Controller) record(p *podupdate.Pod, verdict engine.Verdict) {
	if !b.Decisions.Enabled() {
		return
	}
	pod, v := p.PodState.Pod, p.VPA
	d := answers.Decision{Time: b.Clock.Now().UTC(), Pod: pod.Name, Action: podupdate.Action(verdict.Do), Rule: verdict.Rule, Reason: verdict.Reason,
		Inputs: decisions.Digest(pod.UID, pod.ResourceVersion, v.UID, v.ResourceVersion), Rules: policy.DescribeRules(policy.For(b.Rules(), v)).Digest}
	for _, one := range facts.Alterations(pod, p.Change) {
		d.Changes = append(d.Changes, answers.Change(one).String())
	}
	b.Decisions.Add(client.ObjectKeyFromObject(v), d)
}
