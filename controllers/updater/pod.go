package updater

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
	"github.com/celvpa/celvpa/controllers/updater/counters"
	"github.com/celvpa/celvpa/controllers/updater/remembered"
)

// updatePod carries out the decision on a pod. It asks the rules again if the group has changed
// since, and after a refused resize.
func (r *run) updatePod(ctx context.Context, w *workload, c *candidate) {
	r.decideAgain(w, c)
	if podupdate.Resizes(c.verdict.Do) && r.resize(ctx, w, c) {
		r.decide(w, c)
		r.countRefusal(w, c)
		r.backOffResizes(w, c)
		if podupdate.Resizes(c.verdict.Do) { // whatever the rules say, one try per cycle
			c.verdict.Do = facts.DoWait
		}
	}
	pod := c.request.Pod
	switch c.verdict.Do {
	case facts.DoEvict:
		r.evict(ctx, w, c)
	case facts.DoRememberInfeasible:
		tried := facts.SpecRequests(pod)
		if c.Attempt.Refused != "" {
			tried = facts.RequestsAfter(pod, c.Change)
		}
		r.infeasible.Note(pod.UID, tried)
		c.log().Info("resize infeasible on this node; retrying once less is recommended", "rule", c.verdict.Rule, "reason", c.verdict.Reason)
	case facts.DoSkipInfeasible:
		w.counted.SkippedAsInfeasible()
		if r.infeasible.Report(pod.UID) {
			r.Actuator.Recorder.Eventf(pod, w.vpa, corev1.EventTypeNormal, "InPlaceResizeSkipped", "Resize",
				"%s (%s)", c.verdict.Reason, c.verdict.Rule)
		}
	}
	w.tally.decide(c.verdict)
	r.recordFinal(w, c)
}

// leavePod leaves a pod to the next cycle, because the time of this one is up.
func (r *run) leavePod(w *workload, c *candidate) {
	r.decideAgain(w, c)
	if podupdate.Acts(c.verdict.Do) {
		w.postpone(c, postponedByDeadline)
	}
	w.tally.decide(c.verdict)
	r.recordFinal(w, c)
}

// resize tries to resize a pod. If the API server refuses or does not answer, it returns true and
// c.Attempt holds the reason.
func (r *run) resize(ctx context.Context, w *workload, c *candidate) (refused bool) {
	if r.resizesOver.Load() {
		w.postpone(c, postponedByRate)
		return false
	}
	pod, change := c.request.Pod, podupdate.ChangeOf(c.Pod, c.verdict)
	restarts := facts.Restarts(pod, change)
	if restarts && !r.mayDisrupt(w, c) {
		return false
	}
	if err := wait(ctx, r.Limits.Resizes); err != nil {
		r.resizesOver.Store(true)
		w.postpone(c, postponedByRate)
		if restarts {
			r.first.giveBack()
		}
		w.counted.ResizeFailed(counters.ResizeLimit)
		c.log().Info("resize rate limit reached; remaining resizes wait for the next cycle", "rule", c.verdict.Rule, "error", err.Error())
		return false
	}
	about := "resizing pods of " + c.Owner.String()
	marked, err := r.Actuator.Resize(ctx, pod, w.vpa, change, c.verdict)
	w.sent = w.sent || err == nil || !actuation.Unsent(err)
	if err == nil {
		r.record(w, c, c.verdict.Do, c.verdict)
		podupdate.CarriedOut(facts.DoInPlace, pod, c.group)
		w.tally.resized++
		w.counted.Resized()
		r.sent.Note(pod, r.Clock.Now())
		r.resizes.Replaced(pod.UID, r.now)
		r.unmarked.Forget(pod.UID)
		if !marked {
			r.unmarked.Remember(pod.UID, mark{vpa: w.vpa.Name, change: change}.failed(r.now))
		}
		r.infeasible.Forget(pod.UID)
		r.backOffs.Resizes.Clear(c.Owner, pod.UID)
		r.reported.Over(w.vpa.UID, about)
		c.log().Info("pod resized in place", "rule", c.verdict.Rule, "reason", c.verdict.Reason)
		return false
	}
	if restarts && (actuation.Declined(err) || actuation.Unsent(err)) {
		r.first.giveBack()
	}
	c.Attempt.Refused, c.Attempt.Message = actuation.RefusalOf(err), actuation.Said(err)
	switch c.Attempt.Refused {
	case facts.RefusedGone:
		r.disrupted(c) // the cache still shows it running
		c.log().V(2).Info("pod gone", "rule", c.verdict.Rule)
		return true
	case facts.RefusedNotAnswered:
		switch {
		case actuation.Unsent(err):
			w.postpone(c, postponedByDeadline)
		case !actuation.Declined(err):
			c.group.Disrupted++ // it may have succeeded
			r.sent.Note(pod, r.Clock.Now())
		}
	case facts.RefusedConflict:
	default:
		if r.reported.News(w.vpa.UID, about, withoutPod(c.Attempt.Message, pod)) {
			r.Actuator.Recorder.Eventf(w.vpa, pod, corev1.EventTypeWarning, "ResizeRefused", "Resize",
				"Pod %s cannot be resized: %s (%s)", pod.Name, c.Attempt.Message, c.verdict.Rule)
		}
	}
	r.recordRefused(w, c, actionResizeRefused, c.Attempt.Message)
	c.log().Info("resize refused or unanswered", "rule", c.verdict.Rule, "answer", c.Attempt.Refused, "error", err.Error())
	return true
}

// countRefusal counts a refused resize by what the rules then decided.
func (r *run) countRefusal(w *workload, c *candidate) {
	switch {
	case c.Attempt.Refused == facts.RefusedGone:
	case c.verdict.Do == facts.DoRememberInfeasible:
		w.counted.ResizeFailed(counters.Infeasible)
	default:
		w.counted.ResizeFailed(counters.Resize)
	}
}

// backOffResizes records a refused resize if the rules say so: repeating it in every cycle would
// only load the API server and its webhooks.
func (r *run) backOffResizes(w *workload, c *candidate) {
	refused := facts.RefusedRequest{Resize: true, Why: c.Attempt.Refused, Message: c.Attempt.Message, Then: c.verdict.Do}
	if to, counts := r.about(w, c, refused); counts {
		r.backOffs.Resizes.Add(to, refused.Why, refused.Message, r.now)
		_, c.group.Resizes = r.backOffs.Of(remembered.RefusedTo{Owner: c.Owner}, r.now)
	}
}

// about asks the rules whether a refusal counts, and for which pods.
func (r *run) about(w *workload, c *candidate, refused facts.RefusedRequest) (to remembered.RefusedTo, counts bool) {
	verdict := facts.DecideRefused(w.rules.Plan, refused)
	policy.Report(c.log(), "refusal not counted", verdict.Err)
	return remembered.RefusedBy(verdict.Do, c.Owner, c.request.Pod.UID)
}

// evict evicts a pod.
func (r *run) evict(ctx context.Context, w *workload, c *candidate) {
	if r.evictionsOver.Load() {
		w.postpone(c, postponedByRate)
		return
	}
	if !r.mayDisrupt(w, c) {
		return
	}
	if err := wait(ctx, r.Limits.Evictions); err != nil {
		r.evictionsOver.Store(true)
		w.postpone(c, postponedByRate)
		r.first.giveBack()
		w.counted.EvictionFailed(counters.EvictionLimit)
		c.log().Info("eviction rate limit reached; remaining evictions wait for the next cycle", "rule", c.verdict.Rule, "error", err.Error())
		return
	}
	pod := c.request.Pod
	about := "evicting pods of " + c.Owner.String()
	err := r.Actuator.Evict(ctx, pod, w.vpa, c.verdict)
	w.sent = w.sent || err == nil || !actuation.Unsent(err)
	answer := actuation.AnswerOf(err)
	if answer != actuation.Evicted && answer != actuation.Unsure {
		r.first.giveBack()
	}
	switch answer {
	case actuation.Evicted:
		r.record(w, c, c.verdict.Do, c.verdict)
		podupdate.CarriedOut(facts.DoEvict, pod, c.group)
		w.tally.evicted++
		w.counted.Evicted()
		r.backOffs.Evictions.Clear(c.Owner, pod.UID)
		timeout, failed := facts.ReplacementTimeout(w.rules.Plan, w.vpa, *c.group)
		policy.Report(c.log(), "replacement pod may not be tracked", failed...)
		r.breaker.Evicted(c.Owner, pod, r.now, timeout)
		r.breaker.Leaves(pod.UID, r.Clock.Now())
		r.infeasible.Forget(pod.UID)
		r.reported.Over(w.vpa.UID, about)
		c.log().Info("pod evicted", "rule", c.verdict.Rule, "reason", c.verdict.Reason)
		return
	case actuation.Gone:
		r.disrupted(c) // the cache still shows it running
		c.log().V(2).Info("pod gone", "rule", c.verdict.Rule)
		return
	case actuation.NotSent:
		w.postpone(c, postponedByDeadline)
		c.log().V(2).Info("eviction waits for the next cycle", "rule", c.verdict.Rule, "reason", err.Error())
		return
	case actuation.Budget:
		r.backOffEvictions(w, c, err)
		if text := actuation.Said(err); r.reported.News(w.vpa.UID, about, withoutPod(text, pod)) {
			r.Actuator.Recorder.Eventf(w.vpa, pod, corev1.EventTypeWarning, "EvictionRefused", "Evict",
				"Pod %s may not be evicted: %s (%s)", pod.Name, text, c.verdict.Rule)
		}
	case actuation.Unsure:
		r.disrupted(c) // it may have succeeded
		r.breaker.Leaves(pod.UID, r.Clock.Now())
		r.Actuator.Recorder.Eventf(w.vpa, pod, corev1.EventTypeWarning, "EvictionNotAnswered", "Evict",
			"Pod %s may have been evicted: %s (%s)", pod.Name, actuation.Unclear(err), c.verdict.Rule)
	case actuation.Failed:
		r.backOffEvictions(w, c, err)
		if text := actuation.Said(err); r.reported.News(w.vpa.UID, about, withoutPod(text, pod)) {
			r.Actuator.Recorder.Eventf(w.vpa, pod, corev1.EventTypeWarning, "EvictionRefused", "Evict",
				"Pod %s cannot be evicted: %s (%s)", pod.Name, text, c.verdict.Rule)
		}
	}
	w.counted.EvictionFailed(counters.Eviction)
	r.recordRefused(w, c, actionEvictionRefused, actuation.Said(err))
	message := "eviction refused; retrying in a later cycle"
	if answer == actuation.Unsure {
		message = "eviction not answered; the pod counts as evicted until the cache shows what became of it"
	}
	c.log().Info(message, "rule", c.verdict.Rule, "answer", actuation.Said(err))
}

// backOffEvictions records a refused eviction if the rules say so.
func (r *run) backOffEvictions(w *workload, c *candidate, err error) {
	refused := facts.RefusedRequest{Why: actuation.EvictionRefusalOf(err), Message: actuation.Said(err)}
	if to, counts := r.about(w, c, refused); counts {
		r.backOffs.Evictions.Add(to, refused.Why, refused.Message, r.now)
		c.group.Evictions, _ = r.backOffs.Of(remembered.RefusedTo{Owner: c.Owner}, r.now)
	}
}

// mayDisrupt reports whether the limit of the first cycles lets a pod be evicted, or restarted by a
// resize.
func (r *run) mayDisrupt(w *workload, c *candidate) bool {
	if r.first.take() {
		return true
	}
	w.postpone(c, postponedByStart)
	c.log().V(2).Info("eviction or restarting resize waits for the next cycle", "rule", c.verdict.Rule, "reason", "--first-cycle-evictions")
	return false
}

// disrupted counts a pod of a group as unavailable. A pending pod was unavailable before.
func (r *run) disrupted(c *candidate) {
	if c.request.Pod.Status.Phase != corev1.PodPending {
		c.group.Disrupted++
	}
}

// withoutPod removes the name of a pod from a message, so that messages about pods of one workload
// are equal.
func withoutPod(text string, pod *corev1.Pod) string { return strings.ReplaceAll(text, pod.Name, "") }
