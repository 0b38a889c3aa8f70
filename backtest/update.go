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
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/simulate"
)

// update does what a cycle of the updater does.
func (r *replay) update(now time.Time) {
	r.memory.Look(r.running(), now)
	clear(r.touched)
	disrupted := map[types.UID]bool{}
	for _, v := range r.vpas {
		if v.Takes(matcher.Update) {
			r.updateVPA(v, now, disrupted)
		}
	}
	r.unboost(now)
}

// running are the pods that there are.
func (r *replay) running() (pods []*corev1.Pod) {
	for i := range r.pods {
		if pod := r.pods[i].pod; pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// candidate is a pod that the updater decides on, in its slot.
type candidate struct {
	*podupdate.Candidate
	slot int
}

// updateVPA decides on the pods of a VPA, and carries that out, in the order of the rules.
func (r *replay) updateVPA(v *liveVPA, now time.Time, disrupted map[types.UID]bool) {
	groups := map[target.Key]*facts.Group{}
	var all []candidate
	for i := range r.pods {
		p := &r.pods[i]
		if p.pod == nil || p.changer != v {
			continue
		}
		owner, _ := target.DirectOwner(p.pod)
		g := groups[owner]
		if g == nil {
			g = &facts.Group{}
			groups[owner] = g
		}
		g.Configured, g.Live, g.Running, g.Ready = g.Configured+1, g.Live+1, g.Running+1, g.Ready+1
		c := r.candidate(i, v, now)
		c.Group = g
		all = append(all, candidate{c, i})
	}
	r.memory.RecallGroups(groups, now)
	for owner, g := range groups {
		r.memory.Breaker.AddTo(owner, g, now)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return podupdate.Compare(a.Pod, b.Pod) })
	by := &actuator{replay: r, v: v, now: now, disrupted: disrupted}
	step := r.step(v, by, now)
	for _, c := range all {
		by.slot = c.slot
		c.Evictions, c.Resizes = r.memory.Refused(c.Request.Pod.UID, now)
		step.Take(c.Candidate)
		switch w := r.in.slots[c.slot].workload; {
		case r.obstacle[w] != nil:
		case c.Verdict.Class == facts.ClassMisconfigured:
			r.obstacle[w] = &Obstacle{c.Verdict.Rule, c.Verdict.Reason}
		case c.Refusal.Rule != "":
			r.obstacle[w] = &Obstacle{c.Refusal.Rule, by.why}
		}
	}
}

// step is a cycle of the updater over the pods of a VPA.
func (r *replay) step(v *liveVPA, by podupdate.Actuator, now time.Time) *podupdate.Step {
	return &podupdate.Step{
		VPA: v.Object, Plan: v.Rules.Plan, Memory: &r.memory, Now: now, Clock: simulate.At(now), Actuator: by,
		Failed: func(c *podupdate.Candidate, consequence string, failed ...*engine.RuleError) {
			for _, failure := range failed {
				r.note("pods of %s: %v; %s", ownerOf(c.Request.Pod), failure, consequence)
			}
		},
	}
}

// candidate assesses the pod of a slot. An assessment is still true while neither the pod nor its
// recommendation has changed, but for the time: facts that depend on it are the ages of pods, which rules
// take from Now; of OOM kills; and of startup boosts. Without this a replay takes twice the time.
func (r *replay) candidate(slot int, v *liveVPA, now time.Time) *podupdate.Candidate {
	p := &r.pods[slot]
	if last := p.assessed; last != nil && last.Request.Pod == p.pod && p.version == v.version && !restarted(p.pod) && !facts.Boosted(p.pod) && !r.thorough {
		last.Now, last.Decided, last.Verdict, last.Refusal = now, false, engine.Verdict{}, engine.Verdict{}
		return last
	}
	out, failed := r.step(v, nil, now).Candidate(podupdate.Request{
		Pod: p.pod, VPA: v.Object, Limits: r.limits[p.pod.Namespace], Now: now, Other: p.other, Template: r.in.slots[slot].staged.Next.Spec.Containers, Objects: r.Objects,
	}, nil, nil)
	for _, err := range failed {
		r.note("pods of %s: %v; its values are left as they were", ownerOf(p.pod), err)
	}
	p.assessed, p.version = out, v.version
	return out
}

// restarted reports whether a container of a pod has run out of memory: nothing else restarts one in a replay.
func restarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 })
}

// actuator changes the pods of a replay: a workload replaces evicted ones at once, and nodes carry resizes out at once.
type actuator struct {
	*replay
	v         *liveVPA
	slot      int // of the pod that is decided on
	now       time.Time
	disrupted map[types.UID]bool
	why       string // the last refusal
}

// Evict implements podupdate.Actuator. A PodDisruptionBudget may refuse it.
func (a *actuator) Evict(c *podupdate.Candidate) podupdate.Answer {
	pod, slot := c.Request.Pod, a.slot
	if a.why = a.refused(pod, a.disrupted); a.why != "" {
		return podupdate.Answer{Outcome: podupdate.Declined, Refused: facts.RefusedBudget, Message: a.why}
	}
	a.disrupted[pod.UID] = true
	a.replace(slot, a.now.UnixNano())
	a.disrupted[a.pods[slot].pod.UID] = true // it is not ready before the next cycle
	a.recordUpdate(slot, Evicted, pod, c.Verdict, a.now)
	return podupdate.Answer{}
}

// Resize implements podupdate.Actuator.
func (a *actuator) Resize(c *podupdate.Candidate, change facts.PodChange) podupdate.Answer {
	pod, slot := c.Request.Pod, a.slot
	after, err := patched(pod, append(podpatch.Resources(pod, change), podpatch.Resized(pod, a.v.Object.Name, change)...))
	if err != nil {
		a.note("pods of %s cannot be resized: %v; please report this", ownerOf(pod), err)
		return podupdate.Answer{Outcome: podupdate.Left}
	}
	after.Generation++
	p := &a.pods[slot]
	p.pod = after
	a.force(slot, a.now.UnixNano())
	a.recordUpdate(slot, Resized, pod, c.Verdict, a.now)
	return podupdate.Answer{}
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
		c, w := r.candidate(i, v, now), r.in.slots[i].workload
		n := pods[w]
		group := facts.Group{Configured: n, Live: n, Running: n, Ready: n, Disrupted: r.touched[w]}
		r.memory.RecallRates(c.Owner, &group, now)
		c.Verdict = c.DecideUnboost(v.Rules.Plan, group, nil)
		if podupdate.Resizes(c.Verdict.Do) {
			(&actuator{replay: r, v: v, slot: i, now: now}).Resize(c, podupdate.ChangeOf(c.Pod, c.Verdict))
			r.memory.NoteSent(c.Request.Pod, nil, now)
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
