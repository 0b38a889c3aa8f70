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
	"github.com/celvpa/celvpa/engine"
)

// postpone leaves a pod to the next cycle.
func (w *workload) postpone(c *podupdate.Candidate, reason string) {
	w.late = true
	w.tally.postpone(c.Request.Pod.UID, reason)
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
		r.memory.Breaker.AddTo(owner, g, r.now)
	}
	for _, pod := range w.pods {
		r.memory.NoteResize(pod, r.now)
	}
	actuator := &actuator{run: r, workload: w, ctx: ctx, log: log}
	step := r.step(w, actuator, log)
	list := r.candidates(step, w, limits, groups, log)
	for _, c := range list {
		step.Decide(c)
		w.tally.candidate(c.Verdict)
		if len(w.rules.Shadows) > 0 {
			r.audit(w.rules.Shadows, "running pods", c.Request, c.Pod, c.Verdict, podLog(log, c), func(tried *podupdate.Pod, plan *engine.Plan) engine.Verdict {
				tried.Resize = c.Resize // the request does not know of resizes just sent
				return tried.Decide(plan, *c.Group, nil)
			})
		}
	}
	podupdate.Sort(list)
	for _, c := range list {
		if ctx.Err() != nil {
			step.DecideAgain(c)
			if podupdate.Acts(c.Verdict.Do) {
				w.postpone(c, postponedByDeadline)
			}
		} else {
			step.Take(c)
			actuator.took(c)
		}
		w.tally.decide(c.Verdict)
		r.recordFinal(w, c)
	}
	r.reportHeld(ctx, w, groups, list, log)
}

// step is a cycle over the pods of a VPA.
func (r *run) step(w *workload, by podupdate.Actuator, log logr.Logger) *podupdate.Step {
	step := &podupdate.Step{VPA: w.vpa, Plan: w.rules.Plan, Memory: &r.memory, Now: r.now, Clock: r.Clock, Actuator: by}
	step.Failed = func(c *podupdate.Candidate, consequence string, failed ...*engine.RuleError) {
		policy.Report(podLog(log, c), consequence, failed...)
	}
	if log.V(5).Enabled() {
		step.Asked = func(c *podupdate.Candidate) {
			podLog(log, c).V(5).Info("decided", "do", c.Verdict.Do, "rule", c.Verdict.Rule, "reason", c.Verdict.Reason)
		}
	}
	return step
}

// podLog is a logger for messages about a pod. Most pods need none.
func podLog(log logr.Logger, c *podupdate.Candidate) logr.Logger {
	return log.WithValues("pod", c.Request.Pod.Name)
}

// candidates finds out what the rules want for the pods of a VPA.
func (r *run) candidates(step *podupdate.Step, w *workload, limits *facts.LimitRanges, groups map[target.Key]*facts.Group, log logr.Logger) []*podupdate.Candidate {
	list := make([]*podupdate.Candidate, len(w.pods))
	for i, pod := range w.pods {
		owner, _ := target.DirectOwner(pod)
		c, failed := step.Candidate(r.request(w, pod, limits), groups[owner], nil)
		if len(failed) > 0 {
			policy.Report(podLog(log, c), "values unchanged", failed...)
		}
		list[i] = c
	}
	return list
}

// request is what the rules are told about a pod of a VPA.
func (r *run) request(w *workload, pod *corev1.Pod, limits *facts.LimitRanges) podupdate.Request {
	return podupdate.Request{Pod: pod, VPA: w.vpa, Limits: limits, Now: r.now, NoAdmission: r.noAdmission, Other: w.others[pod.UID], Objects: r.Objects}
}

// groups counts the pods of a VPA by direct owner, with what is disrupted and what the API server
// refused.
func (r *run) groups(ctx context.Context, w *workload, log logr.Logger) map[target.Key]*facts.Group {
	counting, cancel := context.WithTimeout(ctx, part(r.Interval, countShare))
	defer cancel()
	groups := podupdate.Groups(counting, r.Resolver, w.pods, r.now, unknownReplicas(log))
	for _, pod := range w.pods {
		if owner, _ := target.DirectOwner(pod); r.memory.ResizeUnseen(pod, r.now) {
			groups[owner].Disrupted++
		}
	}
	r.memory.RecallGroups(groups, r.now)
	return groups
}

// unknownReplicas logs that the replicas of an owner are not known.
func unknownReplicas(log logr.Logger) func(owner target.Key, err error) {
	return func(owner target.Key, err error) {
		log.V(4).Info("replica count of the owner unknown", "owner", owner.String(), "error", err.Error())
	}
}

// contain recovers from a panic, logs and counts it, with names and values of what it is about. Defer it.
func (u *Updater) contain(log logr.Logger, consequence string, about ...any) {
	if p := recover(); p != nil {
		panics.Inc()
		log.WithValues(about...).Error(fmt.Errorf("panic: %v", p), "panic; please report this", "consequence", consequence, "stack", string(debug.Stack()))
	}
}

// reportHeld finds the groups whose evictions are paused because replacement pods kept their old
// resources or were not created, and reports one in an event and in a condition of the VPA until the
// pause is over.
func (r *run) reportHeld(ctx context.Context, w *workload, groups map[target.Key]*facts.Group, list []*podupdate.Candidate, log logr.Logger) {
	wanted := map[target.Key]bool{} // groups with pods that still need an update
	for _, c := range list {
		notCreated := c.Group.CreateRefused != "" || c.Group.Unreplaced > 0
		if c.Group.Unchanged == 0 && !notCreated {
			continue
		}
		wanted[c.Owner] = wanted[c.Owner] || c.Verdict.Do != facts.DoSkip
		if !podupdate.Acts(c.Verdict.Do) && r.memory.Breaker.Held(c.Owner) == "" {
			without := *c.Group
			without.Unchanged, without.CreateRefused, without.Unreplaced = 0, "", 0
			if other := c.Pod.Decide(w.rules.Plan, without, nil); other.Do == facts.DoEvict || notCreated && other.Rule != c.Verdict.Rule {
				r.memory.Breaker.Hold(c.Owner, c.Verdict.Rule)
			}
		}
	}
	rule, paused := "", facts.Group{}
	for _, owner := range slices.SortedFunc(maps.Keys(groups), func(a, b target.Key) int { return strings.Compare(a.String(), b.String()) }) {
		if !wanted[owner] {
			r.memory.Breaker.Hold(owner, "")
		} else if held := r.memory.Breaker.Held(owner); rule == "" {
			rule, paused = held, *groups[owner]
		}
	}
	message := noEffect(w.vpa, paused, r.now)
	if at := slices.IndexFunc(list, func(c *podupdate.Candidate) bool { return len(c.Change.Overlays) > 0 }); rule == "" && at >= 0 {
		rule, message = list[at].Verdict.Rule, overlaysInvalid(w.vpa, list[at])
	}
	r.reportNoEffect(ctx, w.vpa, rule, message, log)
}
