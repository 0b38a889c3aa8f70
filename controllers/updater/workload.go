package updater

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/updater/remembered"
	"github.com/celvpa/celvpa/engine"
)

// candidate is a pod with what was decided on it.
type candidate struct {
	*podupdate.Pod
	request podupdate.Request
	group   *facts.Group
	ofVPA   logr.Logger

	verdict engine.Verdict
	asked   facts.Group // the group as the verdict saw it
}

// log is a logger for messages about the pod. Most pods need none.
func (c *candidate) log() logr.Logger { return c.ofVPA.WithValues("pod", c.request.Pod.Name) }

// postpone leaves a pod to the next cycle.
func (w *workload) postpone(c *candidate, reason string) {
	w.late = true
	w.tally.postpone(c.request.Pod.UID, reason)
}

// countShare is the part of the interval that may be spent on reading the replica counts of custom
// owners.
const countShare = 0.1

// updateVPA decides on the pods of one VPA and carries the decisions out, one pod after the other
// in the order of the rules, because each changes the disruption budget of its group. A panic
// affects this VPA only.
func (r *run) updateVPA(ctx context.Context, w *workload) {
	v := w.vpa
	log := r.Log.WithValues("namespace", v.Namespace, "vpa", v.Name)
	defer r.contain(log, "pods of this VPA skipped")
	limits, err := r.limits.Of(ctx, v.Namespace)
	if err != nil {
		log.Error(err, "pods of this VPA skipped; retrying in the next cycle")
		return
	}
	groups := r.groups(ctx, w, log)
	for owner, g := range groups {
		r.breaker.AddTo(owner, g, r.now)
	}
	for _, pod := range w.pods {
		r.resizes.Note(pod, r.now)
	}
	list := r.decideAll(w, limits, groups, log)
	for _, c := range list {
		w.tally.candidate(c.verdict)
		r.audit(c, w.rules.Shadows, c.verdict)
	}
	for _, c := range list {
		if ctx.Err() != nil {
			r.leavePod(w, c)
			continue
		}
		r.updatePod(ctx, w, c)
	}
	r.reportHeld(ctx, w, groups, list, log)
}

// groups counts the pods of a VPA by direct owner, with what is disrupted and what the API server
// refused.
func (r *run) groups(ctx context.Context, w *workload, log logr.Logger) map[target.Key]*facts.Group {
	counting, cancel := context.WithTimeout(ctx, part(r.Interval, countShare))
	defer cancel()
	groups := podupdate.Groups(counting, r.Resolver, w.pods, r.now, func(owner target.Key, err error) {
		log.V(4).Info("replica count of the owner unknown", "owner", owner.String(), "error", err.Error())
	})
	for _, pod := range w.pods {
		if owner, _ := target.DirectOwner(pod); r.sent.Unseen(pod, r.now) || r.Beside != nil && r.Beside(pod) {
			groups[owner].Disrupted++
		}
	}
	for owner, g := range groups {
		g.Evictions, g.Resizes = r.backOffs.Of(remembered.RefusedTo{Owner: owner}, r.now)
	}
	return groups
}

// contain recovers from a panic, logs and counts it, with names and values of what it is about. Defer it.
func (u *Updater) contain(log logr.Logger, consequence string, about ...any) {
	if p := recover(); p != nil {
		panics.Inc()
		log.WithValues(about...).Error(fmt.Errorf("panic: %v", p), "panic; please report this", "consequence", consequence, "stack", string(debug.Stack()))
	}
}

// decideAll decides on each pod of a VPA as if it were the only one, and sorts the pods.
func (r *run) decideAll(w *workload, limits *facts.LimitRanges, groups map[target.Key]*facts.Group, log logr.Logger) []*candidate {
	list := make([]*candidate, 0, len(w.pods))
	var alike podupdate.Alike
	for _, pod := range w.pods {
		c := r.assess(w, pod, limits, &alike, nil, log)
		c.group = groups[c.Owner]
		r.decide(w, c)
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b *candidate) int { return podupdate.Compare(a.Pod, b.Pod) })
	return list
}

// assess finds out what the rules want for a pod, with all that is remembered of it.
func (r *run) assess(w *workload, pod *corev1.Pod, limits *facts.LimitRanges, alike *podupdate.Alike, trace *engine.Trace, log logr.Logger) *candidate {
	resize, _ := r.resizes.At(pod, r.now)
	c := &candidate{ofVPA: log, request: podupdate.Request{
		Pod: pod, VPA: w.vpa, Limits: limits, Now: r.now, NoAdmission: r.noAdmission, Infeasible: r.infeasible.Tried(pod.UID), Other: w.others[pod.UID],
		ResizeSeen: resize.Since, Replaced: resize.Replaced, ReplacedAt: resize.ReplacedAt,
	}}
	var failed []*engine.RuleError
	c.Pod, failed = alike.Assess(w.rules.Plan, c.request, trace)
	if len(failed) > 0 {
		policy.Report(c.log(), "values unchanged", failed...)
	}
	c.Evictions, c.Resizes = r.backOffs.Of(remembered.RefusedTo{Pod: pod.UID}, r.now)
	if r.sent.Unseen(pod, r.now) { // the cached pod is from before the resize
		c.Resize = facts.Resize{Status: facts.ResizeSent}
	}
	return c
}

// decideAgain asks the rules about a pod once more if its group has changed since.
func (r *run) decideAgain(w *workload, c *candidate) {
	if *c.group != c.asked {
		r.decide(w, c)
	}
}

// decide asks the rules about a pod.
func (r *run) decide(w *workload, c *candidate) {
	c.asked = *c.group
	c.verdict = c.Decide(w.rules.Plan, c.asked, nil)
	if c.verdict.Err != nil {
		policy.Report(c.log(), "pod skipped", c.verdict.Err)
	}
	if c.ofVPA.V(5).Enabled() {
		c.log().V(5).Info("decided", "do", c.verdict.Do, "rule", c.verdict.Rule, "reason", c.verdict.Reason)
	}
}

// reportHeld finds the groups whose evictions are paused because replacement pods kept their old
// resources or were not created, and reports one in an event and in a condition of the VPA until the
// pause is over.
func (r *run) reportHeld(ctx context.Context, w *workload, groups map[target.Key]*facts.Group, list []*candidate, log logr.Logger) {
	wanted := map[target.Key]bool{} // groups with pods that still need an update
	for _, c := range list {
		notCreated := c.group.CreateRefused != "" || c.group.Unreplaced > 0
		if c.group.Unchanged == 0 && !notCreated {
			continue
		}
		wanted[c.Owner] = wanted[c.Owner] || c.verdict.Do != facts.DoSkip
		if !podupdate.Acts(c.verdict.Do) && r.breaker.Held(c.Owner) == "" {
			without := *c.group
			without.Unchanged, without.CreateRefused, without.Unreplaced = 0, "", 0
			if other := c.Decide(w.rules.Plan, without, nil); other.Do == facts.DoEvict || notCreated && other.Rule != c.verdict.Rule {
				r.breaker.Hold(c.Owner, c.verdict.Rule)
			}
		}
	}
	rule, paused := "", facts.Group{}
	for _, owner := range slices.SortedFunc(maps.Keys(groups), func(a, b target.Key) int { return strings.Compare(a.String(), b.String()) }) {
		if !wanted[owner] {
			r.breaker.Hold(owner, "")
		} else if held := r.breaker.Held(owner); rule == "" {
			rule, paused = held, *groups[owner]
		}
	}
	message := noEffect(w.vpa, paused, r.now)
	if at := slices.IndexFunc(list, func(c *candidate) bool { return len(c.Change.Overlays) > 0 }); rule == "" && at >= 0 {
		rule, message = list[at].verdict.Rule, overlaysInvalid(w.vpa, list[at])
	}
	r.reportNoEffect(ctx, w.vpa, rule, message, log)
}
