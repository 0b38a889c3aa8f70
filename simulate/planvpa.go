package simulate

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
	corev1 "k8s.io/api/core/v1"
)

type assessed struct {
	*podupdate.Pod
	request podupdate.Request
	trace   *engine.Trace
}

func (u *updater) planVPA(v *matcher.VPA, pods []*corev1.Pod, explain bool) (items []answers.PlannedPod) {
	groups := podupdate.Groups(context.Background(), u.resolver, pods, u.now, func(owner target.Key, err error) {
		u.note("%s: how many pods %s %s/%s should have is unknown: %v", v, owner.Kind, owner.Namespace, owner.Name, err)
	})
	u.countPods(groups)
	leaves, why := leaves(v)
	var left []answers.PlannedPod
	list := make([]*podupdate.Pod, 0, len(pods))
	of := map[*podupdate.Pod]assessed{}
	for _, pod := range pods {
		if leaves && !facts.Boosted(pod) { // boosts end in every mode
			left = append(left, u.skip(v, pod, why))
			continue
		}
		a := u.assess(v, pod, explain)
		list, of[a.Pod] = append(list, a.Pod), a
		if !leaves && len(v.Rules.Shadows) > 0 { // judge each pod alone: trials disrupt nothing
			group := *groups[a.Owner]
			ask := func(p *podupdate.Pod, plan *engine.Plan) engine.Verdict { return p.Decide(plan, group, nil) }
			u.notePodTried(v, a, "it", ask(a.Pod, v.Rules.Plan), ask)
		}
	}
	podupdate.Sort(list)
	for _, one := range list {
		items = append(items, u.planPod(v, of[one], groups[one.Owner]))
	}
	return append(items, left...)
}

// leaves reports whether a VPA leaves all running pods alone, and why.
func leaves(v *matcher.VPA) (bool, engine.Verdict) {
	if v.Rules.Err != nil {
		return true, engine.Verdict{Reason: "The rules that the VPA asks for cannot be used: " + v.Rules.Err.Error()}
	}
	return !v.Takes(matcher.Update), v.Verdict(matcher.Update)
}

// assess asks the rules of a VPA what a pod should have. explain adds a trace.
func (u *updater) assess(v *matcher.VPA, pod *corev1.Pod, explain bool) (a assessed) {
	a.request = podupdate.Request{Pod: pod, VPA: v.Object, Limits: u.limits[pod.Namespace], Now: u.now, Other: u.other(v, pod)}
	if facts.Boosted(pod) {
		template, err := u.resolver.Template(context.Background(), pod)
		if err != nil {
			u.note("pod %s: its startup boost ends without its pod template: %v", keyOfPod(pod), err)
		}
		a.request.Template = template
	}
	if explain {
		a.trace = &engine.Trace{}
		matcher.Ask(v.Rules.Plan, matcher.Update, v.Object, a.trace)
	}
	var failed []*engine.RuleError
	a.Pod, failed = podupdate.Assess(v.Rules.Plan, a.request, a.trace)
	for _, one := range failed {
		u.note("pod %s: %v; its values are left as they were", keyOfPod(pod), one)
	}
	return a
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
		w := u.owners[ownerKey{owner.Namespace, owner.Kind, owner.Name}]
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

func (u *updater) planPod(v *matcher.VPA, a assessed, group *facts.Group) answers.PlannedPod {
	pod := a.request.Pod
	leaves, verdict := leaves(v)
	if !leaves {
		verdict = a.Decide(v.Rules.Plan, *group, a.trace)
	}
	acts := podupdate.Acts(verdict.Do)
	podupdate.CarriedOut(verdict.Do, pod, group)
	if verdict.Do == facts.DoEvict && pod.Status.Phase != corev1.PodPending {
		u.evicted = append(u.evicted, pod)
	}
	why := u.why[pod]
	if !acts && facts.Boosted(pod) {
		if by := u.match(matcher.Boost, pod); by != nil {
			boosted := a
			if by != v {
				boosted = u.assess(by, pod, a.trace != nil)
			}
			if unboost := u.unboost(by, boosted, *group); podupdate.PreferUnboost(verdict, unboost) {
				a, verdict = boosted, unboost
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
	item := podupdate.Planned(a.Pod, verdict, a.trace)
	item.Why = why
	return item
}

// unboost asks whether the pod's startup boost ends, independently of update cycles. disrupted
// counts the owner's pods with a resize in progress or a boost already ended in this plan.
func (u *updater) unboost(v *matcher.VPA, a assessed, group facts.Group) engine.Verdict {
	group.Disrupted = podupdate.Resizing(u.byOwner[a.Owner], a.request.Pod, func(other *corev1.Pod) bool { return u.unboosted[other] })
	verdict := a.DecideUnboost(v.Rules.Plan, group, a.trace)
	if podupdate.Resizes(verdict.Do) {
		u.unboosted[a.request.Pod] = true
	}
	u.notePodTried(v, a, "its startup boost", verdict, func(p *podupdate.Pod, plan *engine.Plan) engine.Verdict { return p.DecideUnboost(plan, group, nil) })
	return verdict
}

// notePodTried notes what non-enforced overlays would do with a pod.
func (u *updater) notePodTried(v *matcher.VPA, a assessed, about string, enforced engine.Verdict, ask func(*podupdate.Pod, *engine.Plan) engine.Verdict) {
	for _, shadow := range v.Rules.Shadows {
		if differs := podupdate.ShadowDifferences(shadow.Plan, a.request, a.Pod, enforced, ask); len(differs) > 0 {
			u.note("pod %s: RuleOverlay %s (%s) would change what is done with %s: %s", keyOfPod(a.request.Pod), shadow.Overlay, shadow.Mode, about, strings.Join(differs, "; "))
		}
	}
}
