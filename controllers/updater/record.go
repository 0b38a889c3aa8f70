package updater

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// Actions of decisions that the API server refused, as events name them.
const (
	actionEvictionRefused = "EvictionRefused"
	actionResizeRefused   = "ResizeRefused"
)

// recorded is the last decision on a pod that was recorded.
type recorded struct{ action, rule string }

// recordFinal records the final decision of a cycle on a pod if it is news: another action or rule
// than the last one that was recorded. That a pod is settled is none before anything else is known
// of it. What was done to the pod is recorded already.
func (r *run) recordFinal(w *workload, c *podupdate.Candidate) {
	if !r.Decisions.Enabled() {
		return
	}
	verdict := c.Verdict
	if podupdate.Acts(verdict.Do) {
		why := w.tally.postponed[c.Request.Pod.UID]
		if why == "" {
			return
		}
		verdict.Do, verdict.Class, verdict.Reason = facts.DoWait, facts.ClassWaiting, verdict.Reason+"; left to a later cycle: "+why
	}
	action := podupdate.Action(verdict.Do)
	last, known := r.recorded.Load(c.Request.Pod.UID)
	if last == any(recorded{action, verdict.Rule}) || !known && verdict.Class == facts.ClassSettled {
		return
	}
	r.record(w, c, action, verdict)
}

// record records a decision on a pod, or what became of it.
func (r *run) record(w *workload, c *podupdate.Candidate, action string, verdict engine.Verdict) {
	pod := c.Request.Pod
	r.recorded.Store(pod.UID, recorded{action, verdict.Rule})
	r.keep(r.now, c.Pod, w.rules.Plan, action, verdict, c.Asked, c.Evictions, c.Resizes, c.Attempt, c.Request.ResizeSeen, c.Request.NoAdmission)
}

// keep adds a decision on a pod to those that are kept. inputs are what it was made from beside the pod and its VPA.
func (u *Updater) keep(at time.Time, p *podupdate.Pod, plan *engine.Plan, action string, verdict engine.Verdict, inputs ...any) {
	if !u.Decisions.Enabled() {
		return
	}
	pod, v := p.PodState.Pod, p.VPA
	d := answers.Decision{Time: at.UTC(), Pod: pod.Name, Action: action, Rule: verdict.Rule, Reason: verdict.Reason, Rules: plan.Digest(),
		Inputs: answers.Digest(append([]any{pod.UID, pod.ResourceVersion, v.UID, v.ResourceVersion}, inputs...)...)}
	if verdict.Class != facts.ClassSettled {
		for _, change := range facts.Alterations(pod, podupdate.ChangeOf(p, verdict)) {
			d.Changes = append(d.Changes, answers.Change(change).String())
		}
	}
	u.Decisions.Add(nameOf(v), d)
}

// recordRefused records that the API server refused what was decided, or did not answer.
func (r *run) recordRefused(w *workload, c *podupdate.Candidate, action, message string) {
	verdict := c.Verdict
	verdict.Reason = message
	r.record(w, c, action, verdict)
}

// auditUpdate records whether audited overlays would decide differently that a VPA changes running
// pods.
func (u *Updater) auditUpdate(v *matcher.VPA, log logr.Logger) {
	defer policy.UntilPanic(log)
	for _, shadow := range v.Rules.Shadows {
		u.Shadows.Record(v.Object, shadow, "whether running pods are changed", v.Differs(matcher.Update, shadow))
	}
}

// audit records what audited overlays would do with a pod instead; about names the question that ask asks.
func (u *Updater) audit(shadows []compile.Shadow, about string, r podupdate.Request, p *podupdate.Pod, enforced engine.Verdict, log logr.Logger,
	ask func(*podupdate.Pod, *engine.Plan) engine.Verdict) {
	defer policy.UntilPanic(log)
	for _, shadow := range shadows {
		differs := podupdate.ShadowDifferences(shadow.Plan, r, p, enforced, ask)
		if len(differs) > 0 {
			differs[0] = "pod " + r.Pod.Name + ": " + differs[0]
		}
		u.Shadows.Record(r.VPA, shadow, about, differs)
	}
}
