package simulate

import (
	"cmp"
	"context"
	"math/big"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// side is the cluster by one set of rules.
type side struct {
	book        *compile.Rulebook
	recommended []*vpav1.RecommendedPodResources // instead of those in the status, by position of the VPA
	of          *world                           // the cluster as these rules see it
	planned     map[*corev1.Pod]Action
}

func (x *comparison) side(book *compile.Rulebook) *side {
	return &side{book: book, recommended: make([]*vpav1.RecommendedPodResources, len(x.vpas))}
}

func (s *side) selection(v *vpav1.VerticalPodAutoscaler) compile.Selection {
	return policy.For(s.book, v)
}

// judge asks both sets of rules about all VPAs. Of what it notes, that about running pods by the
// candidate is kept.
func (x *comparison) judge() {
	for _, s := range x.sides {
		s.of = x.apart(s.book)
		s.of.asks, s.of.vpas = updates, make([]*matcher.VPA, len(x.vpas))
		for i, v := range x.vpas {
			object := v.Object
			if recommended := s.recommended[i]; recommended != nil {
				object = &vpav1.VerticalPodAutoscaler{TypeMeta: object.TypeMeta, ObjectMeta: object.ObjectMeta, Spec: object.Spec, Status: object.Status}
				object.Status.Recommendation = recommended
			}
			asked := matcher.New(s.book, object, logr.Discard())
			asked.Rules.Shadows = nil // what is not enforced changes nothing
			s.of.vpas[i] = asked
			s.of.noteRules(asked)
		}
	}
	for _, note := range x.sides[1].of.notes {
		x.note("%s", note)
	}
}

// apart is a view of the same objects with notes of its own.
func (c *world) apart(book *compile.Rulebook) *world {
	cluster, out := *c.Cluster, *c
	cluster.book, cluster.notes, cluster.noted = book, nil, nil
	out.Cluster = &cluster
	return &out
}

// update plans a cycle of the updater by both sets of rules.
func (x *comparison) update(ctx context.Context) {
	for n, s := range x.sides {
		of := make([][]*corev1.Pod, len(x.vpas))
		for _, pod := range x.pods {
			if i := s.controller(pod); i >= 0 && x.asked[i] && podupdate.IgnoredReason(pod) == "" {
				of[i] = append(of[i], pod)
			}
		}
		var positions []int
		for i := range of {
			if len(of[i]) > 0 {
				positions = append(positions, i)
			}
		}
		planned := make([][]answers.PlannedPod, len(positions))
		x.each(ctx, [...]string{"planning by the rules in force", "planning by the candidate"}[n], len(positions), func(k int) {
			i := positions[k]
			u := &updater{world: s.of.apart(s.book), now: x.clock.Now(), unboosted: map[*corev1.Pod]bool{}}
			u.setPods(of[i])
			planned[k] = u.planVPA(u.vpas[i], of[i], false)
		})
		s.planned = map[*corev1.Pod]Action{}
		for k, i := range positions {
			byName := map[string]*corev1.Pod{}
			for _, pod := range of[i] {
				byName[keyOfPod(pod)] = pod
			}
			for _, item := range planned[k] {
				s.planned[byName[item.Pod]] = Action{Action: item.Action, Rule: item.Rule, Reason: item.Reason}
			}
		}
	}
}

// controller is the position of the VPA that a pod belongs to: one that changes it, else one that
// ends its startup boost or leaves it alone, else -1.
func (s *side) controller(pod *corev1.Pod) int {
	v := cmp.Or(s.of.match(matcher.Update, pod), s.of.leaving(pod))
	for _, i := range s.of.selecting[pod] {
		if s.of.vpas[i] == v {
			return i
		}
	}
	return -1
}

// action is what the updater would do with a pod.
func (s *side) action(pod *corev1.Pod) Action {
	if planned, ok := s.planned[pod]; ok {
		return planned
	}
	return Action{Action: facts.DoSkip, Reason: podupdate.IgnoredReason(pod)}
}

// admitted is what admission does with a new pod.
type admitted struct {
	pod     *corev1.Pod // with its resources; containers are those of the template, in order
	refusal string
}

// admit reviews a new pod as the admission controller does.
func (s *side) admit(running, created *corev1.Pod) admitted {
	req := podreview.Request{Pod: created, Limits: s.of.limits[created.Namespace], Objects: s.of.set}
	rules := policy.For(s.book, &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: created.Namespace}})
	if v := s.of.match(matcher.Admission, running); v != nil {
		req.VPA, rules = v.Object, v.Rules
	}
	answer := podreview.Review(rules.Plan, req, nil)
	if !answer.Allowed() {
		var causes []string
		for _, c := range answer.Causes {
			causes = append(causes, c.String())
		}
		return admitted{pod: created, refusal: strings.Join(causes, "; ")}
	}
	return admitted{pod: facts.PodAfter(created, answer.Change)}
}

// replacement is the pod that would replace a running one: of the template of its direct owner, or
// else like it.
func (c *world) replacement(running *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: running.Namespace, Name: running.Name, Labels: running.Labels, Annotations: running.Annotations, OwnerReferences: running.OwnerReferences,
	}}
	if owner, ok := target.DirectOwner(running); ok {
		if w := c.owners[owner.Unversioned()]; w != nil && len(w.Template.Spec.Containers) > 0 {
			out.Spec, out.Labels, out.Annotations = *w.Template.Spec.DeepCopy(), w.Template.Labels, w.Template.Annotations
		}
	}
	if len(out.Spec.Containers) == 0 {
		out.Spec = *running.Spec.DeepCopy()
	}
	poddefaults.BeforeWebhooks(out, c.ranges[out.Namespace])
	return out
}

// assemble admits the pods that would replace those that run, by both sets of rules, and collects
// what differs.
func (x *comparison) assemble(ctx context.Context) *Impact {
	of := make([][]*corev1.Pod, len(x.vpas))
	out := &Impact{Items: []VPAImpact{}}
	for _, pod := range x.pods {
		i := x.sides[1].controller(pod)
		if x.selection == nil || i >= 0 && x.Selects(x.vpas[i].Object) {
			out.Totals.OfPods++
		}
		if i >= 0 && x.asked[i] {
			of[i] = append(of[i], pod)
		}
	}
	found := make([]*VPAImpact, len(x.vpas))
	x.each(ctx, "admitting by both sets of rules", len(x.vpas), func(i int) {
		if x.asked[i] && x.Selects(x.vpas[i].Object) {
			found[i] = x.impactOf(i, of[i])
		}
	})
	for i, item := range found {
		if x.Selects(x.vpas[i].Object) {
			out.Totals.OfVPAs++
		}
		if item == nil {
			continue
		}
		out.Items = append(out.Items, *item)
		t := &out.Totals
		t.VPAs, t.Pods = t.VPAs+1, t.Pods+len(item.Pods)
		t.Requests.add(&item.Requests)
		t.Before.add(item.Before)
		t.After.add(item.After)
	}
	out.sort()
	return out
}

// impactOf is what changes for one VPA; nil if nothing does.
func (x *comparison) impactOf(i int, pods []*corev1.Pod) *VPAImpact {
	before, after := x.sides[0], x.sides[1]
	v := after.of.vpas[i]
	out := &VPAImpact{VPA: v.Key(), Pods: []PodImpact{}, impact: new(big.Int)}
	out.Recommendation = recommender.TargetChanges(before.of.vpas[i].Object.Status.Recommendation, v.Object.Status.Recommendation)
	known := map[string]*admissionChange{}
	for _, pod := range pods {
		change := x.admission(pod, known)
		one := PodImpact{
			Pod: keyOfPod(pod), Requests: change.requests, Resources: change.resources, Refusal: change.refusal,
			Before: before.action(pod), After: after.action(pod),
		}
		moved := one.Before.Action != one.After.Action || one.Before.Rule != one.After.Rule
		if len(one.Resources) == 0 && one.Refusal == nil && !moved {
			continue
		}
		out.Pods = append(out.Pods, one)
		out.Requests.add(&one.Requests)
		out.impact.Add(out.impact, one.Requests.weight())
		out.Before.count(one.Before)
		out.After.count(one.After)
	}
	if len(out.Pods) == 0 && len(out.Recommendation) == 0 {
		return nil
	}
	return out
}

// admissionChange is how admission of a pod differs.
type admissionChange struct {
	requests  Delta
	resources []answers.Change
	refusal   *Answers
}

// admission compares what a pod's replacement gets, once for all pods of one owner and template.
func (x *comparison) admission(pod *corev1.Pod, known map[string]*admissionChange) *admissionChange {
	created := x.replacement(pod)
	owner, owned := target.DirectOwner(pod)
	w := x.owners[owner.Unversioned()]
	shared := owned && w != nil && len(w.Template.Spec.Containers) > 0
	key := owner.String()
	if shared && known[key] != nil {
		return known[key]
	}
	before, after := x.sides[0].admit(pod, created), x.sides[1].admit(pod, created)
	out := &admissionChange{requests: difference(requestsOf(before.pod), requestsOf(after.pod))}
	for i := range created.Spec.Containers {
		was, is, name := &before.pod.Spec.Containers[i].Resources, &after.pod.Spec.Containers[i].Resources, created.Spec.Containers[i].Name
		out.resources = append(out.resources, answers.ChangesOf(name, "requests", was.Requests, is.Requests)...)
		out.resources = append(out.resources, answers.ChangesOf(name, "limits", was.Limits, is.Limits)...)
	}
	var none corev1.ResourceRequirements
	was, is := before.pod.Spec.Resources, after.pod.Spec.Resources
	if was == nil {
		was = &none
	}
	if is == nil {
		is = &none
	}
	out.resources = append(out.resources, answers.ChangesOf("", "requests", was.Requests, is.Requests)...)
	out.resources = append(out.resources, answers.ChangesOf("", "limits", was.Limits, is.Limits)...)
	if before.refusal != after.refusal {
		out.refusal = &Answers{Before: before.refusal, After: after.refusal}
	}
	if shared {
		known[key] = out
	}
	return out
}
