package backtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/updater/remembered"
	"github.com/celvpa/celvpa/engine"
)

// look is what the updater found out about a pod.
type look struct {
	*podupdate.Pod
	slot    int
	version int // of the recommendation that it is about
}

// group is the pods of one workload that one VPA changes.
type group struct {
	facts.Group
	owner target.Key
}

// update does what a cycle of the updater does.
func (r *replay) update(now time.Time) {
	if !r.looked || r.breaker.Len() > 0 || r.thorough {
		r.lookAgain(now)
	}
	clear(r.touched)
	disrupted := map[types.UID]bool{}
	for _, v := range r.vpas {
		if v.Takes(matcher.Update) {
			r.updateVPA(v, now, disrupted)
		}
	}
	r.unboost(now)
}

// lookAgain matches new pods with evicted ones, and forgets those that are gone.
func (r *replay) lookAgain(now time.Time) {
	live := map[types.UID]bool{}
	pods := make([]*corev1.Pod, 0, len(r.pods))
	for i := range r.pods {
		if pod := r.pods[i].pod; pod != nil {
			pods = append(pods, pod)
			live[pod.UID] = true
		}
	}
	r.breaker.Look(pods, live, now)
	r.backOffs.Keep(pods, live)
	r.looked = true
}

// updateVPA decides on the pods of a VPA, and carries that out, in the order of the rules.
func (r *replay) updateVPA(v *liveVPA, now time.Time, disrupted map[types.UID]bool) {
	groups := map[int]*group{}
	var all []*look
	for i := range r.pods {
		p := &r.pods[i]
		if p.pod == nil || p.changer != v {
			continue
		}
		w := r.in.slots[i].workload
		g := groups[w]
		if g == nil {
			owner, _ := target.DirectOwner(p.pod)
			g = &group{owner: owner}
			g.Evictions, g.Resizes = r.backOffs.Of(remembered.RefusedTo{Owner: owner}, now)
			r.breaker.AddTo(owner, &g.Group, now)
			groups[w] = g
		}
		g.Configured, g.Live, g.Running, g.Ready = g.Configured+1, g.Live+1, g.Running+1, g.Ready+1
		all = append(all, r.look(i, v, now))
	}
	slices.SortStableFunc(all, func(a, b *look) int { return podupdate.Compare(a.Pod, b.Pod) })
	for _, one := range all {
		g := groups[r.in.slots[one.slot].workload]
		one.Evictions, one.Resizes = r.backOffs.Of(remembered.RefusedTo{Pod: one.PodState.Pod.UID}, now)
		verdict := one.Decide(v.Rules.Plan, g.Group, nil)
		if w := r.in.slots[one.slot].workload; verdict.Class == facts.ClassMisconfigured && r.obstacle[w] == nil {
			r.obstacle[w] = &Obstacle{verdict.Rule, verdict.Reason}
		}
		switch {
		case verdict.Err != nil:
			r.note("pods of %s: %v; they are left alone", ownerOf(one.PodState.Pod), verdict.Err)
		case verdict.Do == facts.DoEvict:
			r.evict(v, one, g, verdict, now, disrupted)
		case podupdate.Resizes(verdict.Do):
			r.resize(v, one, verdict, now)
			podupdate.CarriedOut(facts.DoInPlace, one.PodState.Pod, &g.Group)
		}
	}
}

// look assesses the pod of a slot. What the updater found out last is still true while neither the
// pod nor its recommendation has changed, but for the time: facts that depend on it are the ages of
// pods, which Decide takes from Now; of OOM kills; and of startup boosts.
func (r *replay) look(slot int, v *liveVPA, now time.Time) *look {
	p := &r.pods[slot]
	if last := p.looked; last != nil && last.version == v.version && !p.oomed && !facts.Boosted(p.pod) && !r.thorough {
		last.Now = now
		return last
	}
	assessed, failed := podupdate.Assess(v.Rules.Plan, podupdate.Request{
		Pod: p.pod, VPA: v.Object, Limits: r.limits[p.pod.Namespace], Now: now, Other: p.other, Template: r.in.slots[slot].staged.Next.Spec.Containers,
	}, nil)
	for _, one := range failed {
		r.note("pods of %s: %v; its values are left as they were", ownerOf(p.pod), one)
	}
	p.looked = &look{Pod: assessed, slot: slot, version: v.version}
	return p.looked
}

// evict evicts a pod, unless a PodDisruptionBudget refuses that. Its workload replaces it at once.
func (r *replay) evict(v *liveVPA, one *look, g *group, verdict engine.Verdict, now time.Time, disrupted map[types.UID]bool) {
	pod := one.PodState.Pod
	if why := r.refused(pod, disrupted); why != "" {
		answer := facts.DecideRefused(v.Rules.Plan, facts.RefusedRequest{Why: facts.RefusedBudget, Message: why})
		if w := r.in.slots[one.slot].workload; r.obstacle[w] == nil {
			r.obstacle[w] = &Obstacle{answer.Rule, why}
		}
		if to, counts := remembered.RefusedBy(answer.Do, g.owner, pod.UID); counts {
			r.backOffs.Evictions.Add(to, facts.RefusedBudget, why, now)
			g.Evictions, _ = r.backOffs.Of(remembered.RefusedTo{Owner: g.owner}, now)
		}
		return
	}
	podupdate.CarriedOut(facts.DoEvict, pod, &g.Group)
	r.backOffs.Evictions.Clear(g.owner, pod.UID)
	timeout, failed := facts.ReplacementTimeout(v.Rules.Plan, v.Object, g.Group)
	for _, f := range failed {
		r.note("pods of %s: %v; replacements may not be tracked", ownerOf(pod), f)
	}
	r.breaker.Evicted(g.owner, pod, now, timeout)
	disrupted[pod.UID] = true
	r.replace(one.slot, now.UnixNano())
	disrupted[r.pods[one.slot].pod.UID] = true // it is not ready before the next cycle
	r.recordUpdate(one.slot, Evicted, pod, verdict, now)
}

// resize resizes a pod in place. The node carries that out at once.
func (r *replay) resize(v *liveVPA, one *look, verdict engine.Verdict, now time.Time) {
	pod, change := one.PodState.Pod, podupdate.ChangeOf(one.Pod, verdict)
	after, err := patched(pod, append(podpatch.Resources(pod, change), podpatch.Resized(pod, v.Object.Name, change)...))
	if err != nil {
		r.note("pods of %s cannot be resized: %v; please report this", ownerOf(pod), err)
		return
	}
	after.Generation++
	p := &r.pods[one.slot]
	p.pod, p.looked = after, nil
	r.force(one.slot, now.UnixNano())
	r.recordUpdate(one.slot, Resized, pod, verdict, now)
}

// recordUpdate counts what was done to a pod, and records it.
func (r *replay) recordUpdate(slot int, what EventType, before *corev1.Pod, verdict engine.Verdict, now time.Time) {
	after, whole := r.pods[slot].pod, &r.whole[r.in.slots[slot].workload]
	count := func(t *tally) {
		if what == Evicted {
			t.evictions++
		} else {
			t.resizes++
		}
	}
	count(whole)
	r.touched[r.in.slots[slot].workload]++
	for i := range r.pods[slot].containers {
		c := &r.pods[slot].containers[i]
		count(c.tally)
		had, has := requestsIn(before, c.name), requestsIn(after, c.name)
		c.recorder.event(Event{
			At: now, Type: what, Pod: before.Name, Rule: verdict.Rule, Reason: verdict.Reason,
			CPU: changeOf(had, has, cpu), Memory: changeOf(had, has, memory),
		})
	}
}

func requestsIn(pod *corev1.Pod, container string) corev1.ResourceList {
	if i := indexOf(pod, container); i >= 0 {
		return pod.Spec.Containers[i].Resources.Requests
	}
	return nil
}

// unboost ends startup boosts that are over, which the updater does beside its cycles. Here a resize
// is complete at once, so what this cycle evicted or resized counts as disrupted.
func (r *replay) unboost(now time.Time) {
	pods := map[int]int{} // by workload
	for i := range r.pods {
		if r.pods[i].pod != nil {
			pods[r.in.slots[i].workload]++
		}
	}
	for i := range r.pods {
		p := &r.pods[i]
		if p.pod == nil || !facts.Boosted(p.pod) {
			continue
		}
		v := r.match(matcher.Boost, p.pod)
		if v == nil {
			continue
		}
		one, w := r.look(i, v, now), r.in.slots[i].workload
		n := pods[w]
		verdict := one.DecideUnboost(v.Rules.Plan, facts.Group{Configured: n, Live: n, Running: n, Ready: n, Disrupted: r.touched[w]}, nil)
		if podupdate.Resizes(verdict.Do) {
			r.resize(v, one, verdict, now)
		}
	}
}

// refused is why a disruption budget refuses an eviction; empty = none does. Pods that were evicted
// in this cycle, and their replacements, are not healthy.
func (r *replay) refused(pod *corev1.Pod, disrupted map[types.UID]bool) string {
	var of []*budget
	for i := range r.in.budgets {
		if r.in.budgets[i].selects(pod) {
			of = append(of, &r.in.budgets[i])
		}
	}
	switch len(of) {
	case 0:
		return ""
	case 1:
	default:
		var names []string
		for _, b := range of {
			names = append(names, b.Name)
		}
		r.note("pods of %s are not evicted: API servers evict no pod that several PodDisruptionBudgets select: %s", ownerOf(pod), strings.Join(names, ", "))
		return "several PodDisruptionBudgets select the pod"
	}
	expected, healthy := 0, 0
	for i := range r.pods {
		if other := r.pods[i].pod; other != nil && of[0].selects(other) {
			expected++
			if !disrupted[other.UID] {
				healthy++
			}
		}
	}
	if wanted := of[0].wants(expected); healthy-1 < wanted {
		return fmt.Sprintf("PodDisruptionBudget %s needs %d healthy pods and has %d", of[0].Name, wanted, healthy)
	}
	return ""
}

// wants is how many pods of an expected number must be healthy. Percentages are rounded up, as API
// servers do.
func (b *budget) wants(expected int) int {
	if least := b.Spec.MinAvailable; least != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(least, expected, true)
		return n
	}
	most := b.Spec.MaxUnavailable
	if most == nil {
		return 0
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(most, expected, true)
	return expected - n
}
