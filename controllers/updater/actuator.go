package updater

import (
	"context"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
)

// actuator sends what a step decides on the pods of a VPA to the API server, within the limits of the process, and reports it.
type actuator struct {
	*run
	*workload
	ctx context.Context
	log logr.Logger // about the VPA
}

var _ podupdate.Actuator = (*actuator)(nil)

// took reports what became of a pod after the API server was asked, or was not.
func (a *actuator) took(c *podupdate.Candidate) {
	if c.Attempt.Refused != "" && c.Attempt.Refused != facts.RefusedGone {
		if c.Verdict.Do == facts.DoRememberInfeasible {
			a.counted.resizeFailed(reasonInfeasible)
		} else {
			a.counted.resizeFailed(reasonResize)
		}
	}
	switch c.Verdict.Do {
	case facts.DoRememberInfeasible:
		podLog(a.log, c).Info("resize infeasible on this node; retrying once less is recommended", "rule", c.Verdict.Rule, "reason", c.Verdict.Reason)
	case facts.DoSkipInfeasible:
		a.counted.skippedAsInfeasible()
		if a.memory.ReportInfeasible(c.Request.Pod.UID) {
			a.Actuator.Recorder.Eventf(c.Request.Pod, a.vpa, corev1.EventTypeNormal, "InPlaceResizeSkipped", "Resize",
				"%s (%s)", c.Verdict.Reason, c.Verdict.Rule)
		}
	}
}

// left leaves a pod to the next cycle.
func (a *actuator) left(c *podupdate.Candidate, reason string) podupdate.Answer {
	a.postpone(c, reason)
	return podupdate.Answer{Outcome: podupdate.Left}
}

// Resize implements podupdate.Actuator.
func (a *actuator) Resize(c *podupdate.Candidate, change facts.PodChange) podupdate.Answer {
	if a.resizesOver.Load() {
		return a.left(c, postponedByRate)
	}
	pod, log := c.Request.Pod, podLog(a.log, c)
	restarts := facts.Restarts(pod, change)
	if restarts && !a.mayDisrupt(c) {
		return a.left(c, postponedByStart)
	}
	if err := wait(a.ctx, a.Limits.Resizes); err != nil {
		a.resizesOver.Store(true)
		if restarts {
			a.first.giveBack()
		}
		a.counted.resizeFailed(reasonResizeLimit)
		log.Info("resize rate limit reached; remaining resizes wait for the next cycle", "rule", c.Verdict.Rule, "error", err.Error())
		return a.left(c, postponedByRate)
	}
	about := reportOf(a.vpa, "resizing pods of "+c.Owner.String())
	marked, err := a.Actuator.Resize(a.ctx, pod, a.vpa, change, c.Verdict)
	outcome := actuation.OutcomeOf(err)
	a.sent = a.sent || outcome != podupdate.Left
	if outcome == podupdate.Done {
		a.record(a.workload, c, c.Verdict.Do, c.Verdict)
		a.tally.resized++
		a.counted.resized()
		a.unmarked.Delete(pod.UID)
		if !marked {
			a.unmarked.Store(pod.UID, mark{vpa: a.vpa.Name, change: change}.failed(a.now))
		}
		a.reported.Over(about)
		log.Info("pod resized in place", "rule", c.Verdict.Rule, "reason", c.Verdict.Reason)
		return podupdate.Answer{}
	}
	if restarts && outcome != podupdate.Unknown {
		a.first.giveBack()
	}
	answer := podupdate.Answer{Outcome: podupdate.Declined, Refused: actuation.RefusalOf(err), Message: actuation.Said(err)}
	switch answer.Refused {
	case facts.RefusedGone:
		log.V(2).Info("pod gone", "rule", c.Verdict.Rule)
		answer.Outcome = podupdate.Gone
		return answer
	case facts.RefusedNotAnswered:
		switch outcome {
		case podupdate.Left:
			a.postpone(c, postponedByDeadline)
		case podupdate.Unknown:
			answer.Outcome = podupdate.Unknown
			a.unmarked.Store(pod.UID, mark{vpa: a.vpa.Name, change: change, unsure: true})
		}
	case facts.RefusedConflict:
	default:
		if a.reported.News(about, withoutPod(answer.Message, pod)) {
			a.Actuator.Recorder.Eventf(a.vpa, pod, corev1.EventTypeWarning, "ResizeRefused", "Resize",
				"Pod %s cannot be resized: %s (%s)", pod.Name, answer.Message, c.Verdict.Rule)
		}
	}
	a.recordRefused(a.workload, c, actionResizeRefused, answer.Message)
	log.Info("resize refused or unanswered", "rule", c.Verdict.Rule, "answer", answer.Refused, "error", err.Error())
	return answer
}

// Evict implements podupdate.Actuator.
func (a *actuator) Evict(c *podupdate.Candidate) podupdate.Answer {
	if a.evictionsOver.Load() {
		return a.left(c, postponedByRate)
	}
	if !a.mayDisrupt(c) {
		return a.left(c, postponedByStart)
	}
	pod, log := c.Request.Pod, podLog(a.log, c)
	if err := wait(a.ctx, a.Limits.Evictions); err != nil {
		a.evictionsOver.Store(true)
		a.first.giveBack()
		a.counted.evictionFailed(reasonEvictionLimit)
		log.Info("eviction rate limit reached; remaining evictions wait for the next cycle", "rule", c.Verdict.Rule, "error", err.Error())
		return a.left(c, postponedByRate)
	}
	about := reportOf(a.vpa, "evicting pods of "+c.Owner.String())
	err := a.Actuator.Evict(a.ctx, pod, a.vpa, c.Verdict)
	outcome := actuation.OutcomeOf(err)
	a.sent = a.sent || outcome != podupdate.Left
	if outcome != podupdate.Done && outcome != podupdate.Unknown {
		a.first.giveBack()
	}
	switch outcome {
	case podupdate.Done:
		a.record(a.workload, c, c.Verdict.Do, c.Verdict)
		a.tally.evicted++
		a.counted.evicted()
		a.reported.Over(about)
		log.Info("pod evicted", "rule", c.Verdict.Rule, "reason", c.Verdict.Reason)
		return podupdate.Answer{}
	case podupdate.Gone:
		log.V(2).Info("pod gone", "rule", c.Verdict.Rule)
		return podupdate.Answer{Outcome: podupdate.Gone}
	case podupdate.Left:
		log.V(2).Info("eviction waits for the next cycle", "rule", c.Verdict.Rule, "reason", err.Error())
		return a.left(c, postponedByDeadline)
	}
	answer := podupdate.Answer{Outcome: outcome, Refused: actuation.RefusalOf(err), Message: actuation.Said(err)}
	message := "eviction refused; retrying in a later cycle"
	if outcome == podupdate.Unknown {
		message = "eviction not answered; the pod counts as evicted until the cache shows what became of it"
		a.Actuator.Recorder.Eventf(a.vpa, pod, corev1.EventTypeWarning, "EvictionNotAnswered", "Evict",
			"Pod %s may have been evicted: %s (%s)", pod.Name, actuation.Unclear(err), c.Verdict.Rule)
	} else if a.reported.News(about, withoutPod(answer.Message, pod)) {
		may := "cannot"
		if answer.Refused == facts.RefusedBudget {
			may = "may not"
		}
		a.Actuator.Recorder.Eventf(a.vpa, pod, corev1.EventTypeWarning, "EvictionRefused", "Evict",
			"Pod %s %s be evicted: %s (%s)", pod.Name, may, answer.Message, c.Verdict.Rule)
	}
	a.counted.evictionFailed(reasonEviction)
	a.recordRefused(a.workload, c, actionEvictionRefused, answer.Message)
	log.Info(message, "rule", c.Verdict.Rule, "answer", answer.Message)
	return answer
}

// mayDisrupt reports whether the limit of the first cycles lets a pod be evicted, or restarted by a resize.
func (a *actuator) mayDisrupt(c *podupdate.Candidate) bool {
	if a.first.take() {
		return true
	}
	podLog(a.log, c).V(2).Info("eviction or restarting resize waits for the next cycle", "rule", c.Verdict.Rule, "reason", "--first-cycle-evictions")
	return false
}

// withoutPod removes the name of a pod from a message, so that messages about pods of one workload
// are equal.
func withoutPod(text string, pod *corev1.Pod) string { return strings.ReplaceAll(text, pod.Name, "") }
