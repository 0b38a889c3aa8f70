package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
)

// planner is a step that carries nothing out.
type planner struct{ *updater }

var _ podupdate.Actuator = planner{}

// Evict implements podupdate.Actuator.
func (p planner) Evict(c *podupdate.Candidate) podupdate.Answer {
	if pod := c.Request.Pod; pod.Status.Phase != corev1.PodPending {
		p.evicted = append(p.evicted, pod)
	}
	return podupdate.Answer{}
}

// Resize implements podupdate.Actuator.
func (planner) Resize(*podupdate.Candidate, facts.PodChange) podupdate.Answer {
	return podupdate.Answer{}
}

func (u *updater) planVPA(v *matcher.VPA, pods []*corev1.Pod, explain bool) (items []answers.PlannedPod) {
	groups := podupdate.Groups(context.Background(), u.resolver, pods, u.now, func(owner target.Key, err error) {
		u.note("%s: how many pods %s %s/%s should have is unknown: %v", v, owner.Kind, owner.Namespace, owner.Name, err)
	})
	u.countPods(groups)
	leaves, why := leaves(v)
	var left []answers.PlannedPod
	list := make([]*podupdate.Candidate, 0, len(pods))
	for _, pod := range pods {
		if leaves && !facts.Boosted(pod) { // boosts end in every mode
			left = append(left, u.skip(v, pod, why))
			continue
		}
		owner, _ := target.DirectOwner(pod)
		c := u.assess(v, pod, groups[owner], explain)
		list = append(list, c)
		if !leaves && len(v.Rules.Shadows) > 0 { // judge each pod alone: trials disrupt nothing
			group := *c.Group
			ask := func(p *podupdate.Pod, plan *engine.Plan) engine.Verdict { return p.Decide(plan, group, nil) }
			u.notePodTried(v, c, "it", ask(c.Pod, v.Rules.Plan), ask)
		}
	}
	podupdate.Sort(list)
	step := u.step(v)
	for _, c := range list {
		if leaves {
			c.Verdict = why
		} else {
			step.Take(c)
		}
		items = append(items, u.planPod(v, c))
	}
	return append(items, left...)
}

// step is a cycle of the updater over the pods of a VPA.
func (u *updater) step(v *matcher.VPA) *podupdate.Step {
	return &podupdate.Step{VPA: v.Object, Plan: v.Rules.Plan, Dry: true, Now: u.now, Clock: u.clock, Actuator: planner{u}}
}

// leaves reports whether a VPA leaves all running pods alone, and why.
func leaves(v *matcher.VPA) (bool, engine.Verdict) {
	if v.Rules.Err != nil {
		return true, engine.Verdict{Reason: "The rules that the VPA asks for cannot be used: " + v.Rules.Err.Error()}
	}
	return !v.Takes(matcher.Update), v.Verdict(matcher.Update)
}

// assess asks the rules of a VPA what a pod should have. explain adds a trace.
func (u *updater) assess(v *matcher.VPA, pod *corev1.Pod, group *facts.Group, explain bool) *podupdate.Candidate {
	request := podupdate.Request{Pod: pod, VPA: v.Object, Limits: u.limits[pod.Namespace], Now: u.now, Other: u.other(v, pod), Objects: u.set}
	if facts.Boosted(pod) {
		template, err := u.resolver.Template(context.Background(), pod)
		if err != nil {
			u.note("pod %s: its startup boost ends without its pod template: %v", keyOfPod(pod), err)
		}
		request.Template = template
	}
	var trace *engine.Trace
	if explain {
		trace = &engine.Trace{}
		matcher.Ask(v.Rules.Plan, matcher.Update, v.Object, trace)
	}
	c, failed := u.step(v).Candidate(request, group, trace)
	for _, failure := range failed {
		u.note("pod %s: %v; its values are left as they were", keyOfPod(pod), failure)
	}
	return c
}

// other is the VPA by which admission would change a pod that replaces one; empty = v, or none.
func (u *updater) other(v *matcher.VPA, pod *corev1.Pod) string {
	if len(u.candidates(pod)) < 2 {
		return ""
	}
	admitted := u.match(matcher.Admission, pod)
	if admitted == nil || admitted == v {
		return ""
	}
	return admitted.Object.Name
}

// countPods sets a group's replicas to its number of pods if the manifests give none.
func (u *updater) countPods(groups map[target.Key]*facts.Group) {
	for _, owner := range slices.SortedFunc(maps.Keys(groups), func(a, b target.Key) int { return strings.Compare(a.String(), b.String()) }) {
		w := u.owners[owner.Unversioned()]
		if w == nil {
			continue
		}
		if why := w.Uncounted(); why != "" {
			g := groups[owner]
			g.Configured = g.Live
			u.note("%s %s: the number of its pods counts as its replicas: %d", w, why, g.Live)
		}
	}
}

// planPod describes what is done with a pod, which may be the end of its startup boost.
func (u *updater) planPod(v *matcher.VPA, c *podupdate.Candidate) answers.PlannedPod {
	pod, verdict := c.Request.Pod, c.Verdict
	why := u.why[pod]
	if !podupdate.Acts(verdict.Do) && facts.Boosted(pod) {
		if by := u.match(matcher.Boost, pod); by != nil {
			boosted := c
			if by != v {
				boosted = u.assess(by, pod, c.Group, c.Trace != nil)
			}
			if unboost := u.unboost(by, boosted); podupdate.PreferUnboost(verdict, unboost) {
				c, verdict = boosted, unboost
				if by != v && unboost.Do == facts.DoSkip {
					why += "; " + by.String() + " would end its startup boost"
				} else if by != v {
					why += "; " + by.String() + " ends its startup boost"
				}
			}
		}
	}
	if verdict.Err != nil {
		u.note("pod %s: %v; it is left alone", keyOfPod(pod), verdict.Err)
	}
	item := podupdate.Planned(c.Pod, verdict, c.Trace)
	item.Why = why
	return item
}

// unboost asks whether the pod's startup boost ends, independently of update cycles. disrupted
// counts the owner's pods with a resize in progress or a boost already ended in this plan.
func (u *updater) unboost(v *matcher.VPA, c *podupdate.Candidate) engine.Verdict {
	group := *c.Group
	group.Disrupted = podupdate.Resizing(u.byOwner[c.Owner], c.Request.Pod, func(other *corev1.Pod) bool { return u.unboosted[other] })
	verdict := c.DecideUnboost(v.Rules.Plan, group, c.Trace)
	if podupdate.Resizes(verdict.Do) {
		u.unboosted[c.Request.Pod] = true
	}
	u.notePodTried(v, c, "its startup boost", verdict, func(p *podupdate.Pod, plan *engine.Plan) engine.Verdict { return p.DecideUnboost(plan, group, nil) })
	return verdict
}

// notePodTried notes what non-enforced overlays would do with a pod.
func (u *updater) notePodTried(v *matcher.VPA, c *podupdate.Candidate, about string, enforced engine.Verdict, ask func(*podupdate.Pod, *engine.Plan) engine.Verdict) {
	for _, shadow := range v.Rules.Shadows {
		if differs := podupdate.ShadowDifferences(shadow.Plan, c.Request, c.Pod, enforced, ask); len(differs) > 0 {
			u.note("pod %s: RuleOverlay %s (%s) would change what is done with %s: %s", keyOfPod(c.Request.Pod), shadow.Overlay, shadow.Mode, about, strings.Join(differs, "; "))
		}
	}
}

// noteBudgets names the PodDisruptionBudgets of the pods to evict: only the API server can evaluate
// them. They do not apply to pending pods.
func (u *updater) noteBudgets() {
	inNamespace := map[string][]*corev1.Pod{}
	for _, pod := range u.evicted {
		inNamespace[pod.Namespace] = append(inNamespace[pod.Namespace], pod)
	}
	selecting := map[*corev1.Pod][]string{}
	var applies []string
	for i := range u.budgets {
		b := &u.budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil && len(inNamespace[b.Namespace]) > 0 {
			u.note("PodDisruptionBudget %s/%s is left out: spec.selector: %v", b.Namespace, b.Name, err)
		}
		var pods []string
		for _, pod := range inNamespace[b.Namespace] {
			if err == nil && selector.Matches(labels.Set(pod.Labels)) {
				pods, selecting[pod] = append(pods, keyOfPod(pod)), append(selecting[pod], b.Name)
				if NeverEvicts(b) {
					u.blocked[keyOfPod(pod)] = b.Name
				}
			}
		}
		if len(pods) > 0 {
			applies = append(applies, fmt.Sprintf("PodDisruptionBudget %s/%s applies to the eviction of %s: the API server may refuse it%s", b.Namespace, b.Name, Few(pods), allowedNow(b)))
		}
	}
	for _, pod := range u.evicted {
		if names := selecting[pod]; len(names) > 1 {
			u.note("pod %s: API servers evict no pod that several PodDisruptionBudgets select: %s", keyOfPod(pod), strings.Join(names, ", "))
		}
	}
	for _, text := range applies {
		u.note("%s", text)
	}
}

// NeverEvicts reports whether a budget allows no eviction even while all pods are healthy.
func NeverEvicts(b *policyv1.PodDisruptionBudget) bool {
	s := &b.Status
	return s.ObservedGeneration >= b.Generation && s.DisruptionsAllowed == 0 && s.ExpectedPods > 0 && s.DesiredHealthy >= s.ExpectedPods
}

// allowedNow formats a budget's status, if any.
func allowedNow(b *policyv1.PodDisruptionBudget) string {
	s := &b.Status
	if s.ObservedGeneration == 0 && len(s.Conditions) == 0 && s.ExpectedPods == 0 {
		return ""
	}
	return fmt.Sprintf("; it allows %s now", Counted(int(s.DisruptionsAllowed), "eviction"))
}
