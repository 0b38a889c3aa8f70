package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// offlineUpdater is the updater's view of manifests.
type offlineUpdater struct {
	*offlineCluster
	pods    []*corev1.Pod
	budgets []policyv1.PodDisruptionBudget
	now     time.Time
	evicted []*corev1.Pod // that would be, in order

	unboosted map[target.Key]int // pods whose startup boost would end, by owner
}

// newOfflineUpdater collects what matters. The error tells what cannot be used; all else is.
func newOfflineUpdater(book *engine.Rulebook, set *manifests.Set, now time.Time) (*offlineUpdater, error) {
	cluster, _, unusable := newOfflineCluster(book, set, question{point: facts.VPAUpdate, bind: facts.UpdateFacts, pods: "running pods", verb: "controls", pinned: true})
	u := &offlineUpdater{offlineCluster: cluster, now: now, unboosted: map[target.Key]int{}}
	pods, unread := set.Pods()
	budgets, unreadBudgets := set.PodDisruptionBudgets()
	u.tellTwice(set, "PodDisruptionBudget")
	seen := map[string]bool{}
	for i := range pods {
		if key := keyOfPod(&pods[i]); !seen[key] {
			seen[key] = true
			u.pods = append(u.pods, &pods[i])
		}
	}
	slices.SortStableFunc(u.pods, func(a, b *corev1.Pod) int { return strings.Compare(keyOfPod(a), keyOfPod(b)) })
	seen = map[string]bool{}
	for _, b := range budgets {
		if key := b.Namespace + "/" + b.Name; !seen[key] {
			seen[key] = true
			u.budgets = append(u.budgets, b)
		}
	}
	slices.SortStableFunc(u.budgets, func(a, b policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	u.addOwners(u.pods)
	return u, faults.Join(unusable, unread, unreadBudgets)
}

func keyOfPod(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// podsOf are the pods of a VPA.
type podsOf struct {
	alive    []*corev1.Pod
	unlooked []*corev1.Pod
}

// report plans for every pod, in the order in which the updater goes: by VPA, and by priority. Pods that it does not look at come
// last, of each VPA and of all.
func (u *offlineUpdater) report(explain bool) *planReport {
	out := &planReport{Items: []planItem{}, explained: explain}
	changed := make([]changedBy, len(u.pods))
	why := map[*corev1.Pod]string{}
	of := map[*judgedVPA]*podsOf{}
	var alone []planItem
	for i, pod := range u.pods {
		changed[i] = u.controlling(pod)
		why[pod] = changed[i].why
		v := changed[i].vpa
		if v == nil {
			v = u.owner(pod, func(*judgedVPA) bool { return true }) // that leaves it alone
		}
		if v == nil {
			alone = append(alone, aloneItem(pod, changed[i].why))
			continue
		}
		if of[v] == nil {
			of[v] = &podsOf{}
		}
		if podupdate.Unlooked(pod) == "" {
			of[v].alive = append(of[v].alive, pod)
		} else {
			of[v].unlooked = append(of[v].unlooked, pod)
		}
	}
	u.tellStale(u.pods, changed)
	vpas := u.sortedVPAs()
	slices.SortStableFunc(vpas, func(a, b *judgedVPA) int { return strings.Compare(a.key(), b.key()) })
	for _, v := range vpas {
		u.tellTried(v)
		if of[v] == nil {
			u.tellIdle(v, of)
			continue
		}
		out.Items = append(out.Items, u.planVPA(v, of[v], explain)...)
	}
	out.Items = append(out.Items, alone...)
	for i := range out.Items {
		out.Items[i].why = why[out.Items[i].pod]
	}
	u.tellBudgets()
	return out
}

// tellIdle tells why a VPA has no pods, unless its target is missing, which is told elsewhere.
func (u *offlineUpdater) tellIdle(v *judgedVPA, of map[*judgedVPA]*podsOf) {
	w := u.owners[targetOf(v)]
	if w == nil {
		return
	}
	for _, other := range u.vpas[v.Namespace] {
		if of[other] != nil && sameTarget(other, v) {
			u.note("%s: the pods of its target, %s, belong to %s, which has the same", v, w, other)
			return
		}
	}
	u.note("%s: no pod among the manifests belongs to its target, %s; add running pods with -f, as kubectl get pod -o yaml prints them", v, w)
}

// aloneItem is the line of a pod that no VPA changes.
func aloneItem(pod *corev1.Pod, why string) planItem {
	reason := strings.ToUpper(why[:1]) + why[1:]
	if unlooked := podupdate.Unlooked(pod); unlooked != "" {
		reason = unlooked
	}
	return planItem{pod: pod, Pod: keyOfPod(pod), Action: facts.DoSkip, Reason: reason}
}

// tellTried tells what overlays that are not enforced would say about whether a VPA changes running pods.
func (u *offlineUpdater) tellTried(v *judgedVPA) {
	if v.chosen.Err != nil {
		return
	}
	for _, shadow := range v.chosen.Shadows {
		tried := shadow.Plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v.VerticalPodAutoscaler), nil)
		if differs := policy.VerdictDifference(v.verdict, tried); len(differs) > 0 {
			u.note("%s: RuleOverlay %s (%s) would change whether running pods are changed: %s", v.key(), shadow.Overlay, shadow.Mode, strings.Join(differs, "; "))
		}
	}
}

// assessed is a pod with what the rules are asked about it.
type assessed struct {
	*podupdate.Pod
	request podupdate.Request
	trace   *engine.Trace
}

// planVPA plans for the pods of one VPA.
func (u *offlineUpdater) planVPA(v *judgedVPA, pods *podsOf, explain bool) (items []planItem) {
	if v.chosen.Err != nil {
		for _, pod := range pods.alive {
			items = append(items, planItem{pod: pod, Pod: keyOfPod(pod), VPA: v.key(), Action: facts.DoSkip, Reason: "The rules that the VPA asks for cannot be used: " + v.chosen.Err.Error()})
		}
		return append(items, unlooked(v, pods)...)
	}
	groups := podupdate.Groups(context.Background(), u.resolver, pods.alive, func(owner target.Key, err error) {
		u.note("%s: how many pods %s %s/%s should have is not known: %v", v, owner.Kind, owner.Namespace, owner.Name, err)
	})
	u.countPods(groups)
	var left []planItem
	list := make([]*podupdate.Pod, 0, len(pods.alive))
	of := map[*podupdate.Pod]assessed{}
	for _, pod := range pods.alive {
		if !v.takes && !facts.Boosted(pod) { // a boost ends in every mode
			left = append(left, planItem{pod: pod, Pod: keyOfPod(pod), VPA: v.key(), Action: facts.DoSkip, Rule: v.verdict.Rule, Reason: v.verdict.Reason})
			continue
		}
		a := assessed{request: podupdate.Request{Pod: pod, VPA: v.VerticalPodAutoscaler, Limits: u.limits[pod.Namespace], Now: u.now}}
		if explain {
			a.trace = &engine.Trace{}
			v.chosen.Plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v.VerticalPodAutoscaler), a.trace)
		}
		var failed []*engine.RuleError
		a.Pod, failed = podupdate.Assess(v.chosen.Plan, a.request, a.trace)
		for _, one := range failed {
			u.note("pod %s: %v; its values are left as they were", keyOfPod(pod), one)
		}
		list, of[a.Pod] = append(list, a.Pod), a
		if v.takes && len(v.chosen.Shadows) > 0 { // as if each pod were the only one: what is tried disrupts nothing
			group := *groups[a.Owner]
			ask := func(p *podupdate.Pod, plan *engine.Plan) engine.Verdict { return p.Decide(plan, group, nil) }
			u.tellPodTried(v, a, "it", ask(a.Pod, v.chosen.Plan), ask)
		}
	}
	podupdate.Sort(list)
	for _, one := range list {
		items = append(items, u.planPod(v, of[one], groups[one.Owner]))
	}
	return append(append(items, left...), unlooked(v, pods)...)
}

// unlooked are the lines of pods that the updater does not look at.
func unlooked(v *judgedVPA, pods *podsOf) (items []planItem) {
	for _, pod := range pods.unlooked {
		items = append(items, planItem{pod: pod, Pod: keyOfPod(pod), VPA: v.key(), Action: facts.DoSkip, Reason: podupdate.Unlooked(pod)})
	}
	return items
}

// countPods lets groups have as many replicas as pods where the manifests do not tell how many they should have.
func (u *offlineUpdater) countPods(groups map[target.Key]*facts.Group) {
	for _, owner := range slices.SortedFunc(maps.Keys(groups), func(a, b target.Key) int { return strings.Compare(a.String(), b.String()) }) {
		w := u.owners[ownerKey{owner.Namespace, owner.Kind, owner.Name}]
		if w == nil {
			continue
		}
		if why := w.Uncounted(); why != "" {
			g := groups[owner]
			g.Configured = g.Live
			u.note("%s %s: it is taken to have as many replicas as there are pods of it: %d", w, why, g.Live)
		}
	}
}

// planPod asks the rules what is done with a pod.
func (u *offlineUpdater) planPod(v *judgedVPA, a assessed, group *facts.Group) planItem {
	pod, verdict := a.request.Pod, v.verdict
	if v.takes {
		verdict = a.Decide(v.chosen.Plan, *group, a.trace)
	}
	acts := verdict.Do == facts.DoEvict || verdict.Do == facts.DoInPlace
	if acts && (verdict.Do == facts.DoInPlace || pod.Status.Phase != corev1.PodPending) {
		group.Disrupted++
	}
	if verdict.Do == facts.DoEvict && pod.Status.Phase != corev1.PodPending {
		u.evicted = append(u.evicted, pod)
	}
	if !acts && facts.Boosted(pod) {
		if unboost := u.unboost(v, a, *group); unboost.Do != facts.DoSkip {
			verdict = unboost
		}
	}
	if verdict.Err != nil {
		u.note("pod %s: %v; it is left alone", keyOfPod(pod), verdict.Err)
	}
	item := planItem{
		pod: pod, Pod: keyOfPod(pod), VPA: v.key(), Action: actionOf(verdict.Do), Rule: verdict.Rule, Reason: verdict.Reason,
		Priority: &planPriority{
			OutsideRecommendedRange: a.Priority.OutsideRecommendedRange, ScaleUp: a.Priority.ScaleUp, ResourceDiff: planNumber(a.Priority.ResourceDiff),
		},
	}
	change := a.Change
	if verdict.Do == facts.DoInPlaceCPU {
		change = change.WithoutMemory(pod)
	}
	for _, one := range facts.Alterations(pod, change) {
		item.Change = append(item.Change, planChange(one))
	}
	if a.trace != nil {
		item.Steps = a.trace.Steps()
	}
	return item
}

// unboost asks the rules whether the startup boost of a pod ends. That does not wait for the cycles of the updater and has a count
// of its own: disrupted are pods of the same owner whose resize goes on, or whose boost ended before in this plan.
func (u *offlineUpdater) unboost(v *judgedVPA, a assessed, group facts.Group) engine.Verdict {
	group.Disrupted = u.unboosted[a.Owner]
	for _, other := range u.pods {
		if owner, _ := target.DirectOwner(other); owner != a.Owner || other == a.request.Pod || other.Status.Phase == corev1.PodPending || podupdate.Unlooked(other) != "" {
			continue
		}
		if status, _, _ := facts.ResizeOf(other); status == facts.ResizeSent || status == facts.ResizeInProgress {
			group.Disrupted++
		}
	}
	verdict := a.DecideUnboost(v.chosen.Plan, group, a.trace)
	if verdict.Do == facts.DoInPlace || verdict.Do == facts.DoInPlaceCPU {
		u.unboosted[a.Owner]++
	}
	u.tellPodTried(v, a, "its startup boost", verdict, func(p *podupdate.Pod, plan *engine.Plan) engine.Verdict { return p.DecideUnboost(plan, group, nil) })
	return verdict
}

// actionOf is what an outcome means for the pod: to remember something about it changes nothing.
func actionOf(do string) string {
	switch do {
	case facts.DoEvict, facts.DoInPlace, facts.DoWait:
		return do
	case facts.DoInPlaceCPU:
		return facts.DoInPlace
	case facts.DoRememberInfeasible:
		return facts.DoWait
	}
	return facts.DoSkip
}

// tellPodTried tells what overlays that are not enforced would do with a pod instead.
func (u *offlineUpdater) tellPodTried(v *judgedVPA, a assessed, about string, enforced engine.Verdict, ask func(*podupdate.Pod, *engine.Plan) engine.Verdict) {
	for _, shadow := range v.chosen.Shadows {
		if differs := podupdate.ShadowDifferences(shadow.Plan, a.request, a.Pod, enforced, ask); len(differs) > 0 {
			u.note("pod %s: RuleOverlay %s (%s) would change what is done with %s: %s", keyOfPod(a.request.Pod), shadow.Overlay, shadow.Mode, about, strings.Join(differs, "; "))
		}
	}
}
