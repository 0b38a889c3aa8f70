package updater

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/decisions"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/engine"
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
	last, known := r.recorded.Recall(c.Request.Pod.UID)
	if last == (recorded{action, verdict.Rule}) || !known && verdict.Class == facts.ClassSettled {
		return
	}
	r.record(w, c, action, verdict)
}

// record records a decision on a pod, or what became of it.
func (r *run) record(w *workload, c *podupdate.Candidate, action string, verdict engine.Verdict) {
	if !r.Decisions.Enabled() {
		return
	}
	pod := c.Request.Pod
	r.recorded.Remember(pod.UID, recorded{action, verdict.Rule})
	d := answers.Decision{Time: r.now.UTC(), Pod: pod.Name, Action: action, Rule: verdict.Rule, Reason: verdict.Reason, Rules: w.rules.Plan.Digest(),
		Inputs: decisions.Digest(pod.UID, pod.ResourceVersion, w.vpa.UID, w.vpa.ResourceVersion, c.Asked, c.Evictions, c.Resizes, c.Attempt, c.Request.ResizeSeen, c.Request.NoAdmission)}
	if verdict.Class != facts.ClassSettled {
		for _, one := range facts.Alterations(pod, podupdate.ChangeOf(c.Pod, verdict)) {
			d.Changes = append(d.Changes, answers.Change(one).String())
		}
	}
	r.Decisions.Add(types.NamespacedName{Namespace: w.vpa.Namespace, Name: w.vpa.Name}, d)
}

// recordRefused records that the API server refused what was decided, or did not answer.
func (r *run) recordRefused(w *workload, c *podupdate.Candidate, action, message string) {
	verdict := c.Verdict
	verdict.Reason = message
	r.record(w, c, action, verdict)
}
