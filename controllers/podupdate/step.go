// Package podupdate is what becomes of running pods: the resources that the rules want for a pod, how far
// it is from them, its priority, and a Step, which decides on the pods of a VPA one after the other and
// has that carried out. The updater, explanations, `celvpa plan` and `celvpa backtest` run it. It reads no
// clock of its own and calls no API server.
package podupdate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Step is a cycle of an updater over the pods of one VPA. It alone knows the order of a cycle: which pod
// comes first, what is decided again once others have changed, and what follows from the answer of the
// API server. The updater, `celvpa plan`, explanations and backtests differ in their Actuators.
type Step struct {
	VPA    *vpav1.VerticalPodAutoscaler
	Plan   *engine.Plan
	Memory *Memory   // of earlier cycles; nil = there were none
	Dry    bool      // the Actuator carries nothing out, so nothing is added to Memory
	Now    time.Time // the start of the cycle
	// Clock stamps requests whose effect the cache may not show yet.
	Clock    clock.PassiveClock
	Actuator Actuator
	// Failed is told of rules that failed, and what that means; nil = nobody is.
	Failed func(c *Candidate, consequence string, failed ...*engine.RuleError)
	// Asked is told of each verdict; nil = nobody is.
	Asked func(c *Candidate)
}

// Candidate is a pod of a step. Its group is shared with the other pods of its owner.
type Candidate struct {
	*Pod
	Request Request
	Group   *facts.Group
	Trace   *engine.Trace // of decisions; may be nil

	Decided bool // Verdict is that of this cycle
	Verdict engine.Verdict
	Asked   facts.Group    // the group as the verdict saw it
	Refusal engine.Verdict // of pod.refused, if the API server refused what was decided
}

// Actuator carries out what a step decides on a pod.
type Actuator interface {
	Evict(c *Candidate) Answer
	Resize(c *Candidate, change facts.PodChange) Answer
}

// Answer is what became of a request.
type Answer struct {
	Outcome Outcome
	Refused facts.Refusal // why, where it was not carried out
	Message string        // of the API server
}

// Outcome is what became of a request in short.
type Outcome int

// The outcomes.
const (
	Done     Outcome = iota
	Left             // nothing was sent: the pod is left to a later cycle
	Gone             // the pod no longer exists
	Unknown          // there was no answer: it may have been carried out
	Declined         // it was not carried out
)

// Candidate finds out what the rules want for a pod, with all that is remembered of it. It also returns
// the rules that failed.
func (s *Step) Candidate(r Request, group *facts.Group, trace *engine.Trace) (*Candidate, []*engine.RuleError) {
	if s.Memory != nil {
		s.Memory.recall(&r)
	}
	c := &Candidate{Request: r, Group: group, Trace: trace}
	var failed []*engine.RuleError
	c.Pod, failed = Assess(s.Plan, r, trace)
	if s.Memory != nil {
		s.Memory.about(c, s.Now)
	}
	return c, failed
}

// Sort puts candidates into the order in which they are updated.
func Sort(list []*Candidate) {
	slices.SortStableFunc(list, func(a, b *Candidate) int { return Compare(a.Pod, b.Pod) })
}

// Decide asks the rules about a pod.
func (s *Step) Decide(c *Candidate) {
	c.Decided, c.Asked = true, *c.Group
	c.Verdict = c.Pod.Decide(s.Plan, c.Asked, c.Trace)
	s.failed(c, "pod skipped", c.Verdict.Err)
	if s.Asked != nil {
		s.Asked(c)
	}
}

// DecideAgain asks the rules about a pod unless nothing has changed since they were asked.
func (s *Step) DecideAgain(c *Candidate) {
	if !c.Decided || *c.Group != c.Asked {
		s.Decide(c)
	}
}

// Take decides on a pod, carries that out, and notes what became of it. A resize that is refused is
// decided on once more in the same cycle, so that an eviction may follow.
func (s *Step) Take(c *Candidate) {
	s.DecideAgain(c)
	if Resizes(c.Verdict.Do) && s.resize(c) {
		s.Decide(c)
		s.refused(c, true, Answer{Refused: c.Attempt.Refused, Message: c.Attempt.Message})
		if Resizes(c.Verdict.Do) { // whatever the rules say, one try per cycle
			c.Verdict.Do = facts.DoWait
		}
	}
	switch c.Verdict.Do {
	case facts.DoEvict:
		s.evict(c)
	case facts.DoRememberInfeasible:
		tried := facts.SpecRequests(c.Request.Pod)
		if c.Attempt.Refused != "" {
			tried = facts.RequestsAfter(c.Request.Pod, c.Change)
		}
		if m := s.remembers(); m != nil {
			m.wasInfeasible(c.Request.Pod.UID, tried)
		}
	}
}

// remembers is the Memory to add to; nil = none.
func (s *Step) remembers() *Memory {
	if s.Dry {
		return nil
	}
	return s.Memory
}

// resize has a pod resized. It reports whether that was refused or not answered; c.Attempt has the
// reason then.
func (s *Step) resize(c *Candidate) (refused bool) {
	pod := c.Request.Pod
	answer := s.Actuator.Resize(c, ChangeOf(c.Pod, c.Verdict))
	switch answer.Outcome {
	case Left:
		return false
	case Done:
		c.Group.Disrupted++
		c.Group.CountUpdate(facts.Updates{Resizes: 1})
		c.Group.Resizes = facts.Refusals{}
		if m := s.remembers(); m != nil {
			m.resized(c, s.Clock.Now(), s.Now)
		}
		return false
	case Gone:
		disrupted(c) // the cache still shows it running
	case Unknown:
		c.Group.Disrupted++
		c.Group.CountUpdate(facts.Updates{Resizes: 1})
		if m := s.remembers(); m != nil {
			m.NoteSent(pod, nil, s.Clock.Now())
		}
	}
	c.Attempt.Refused, c.Attempt.Message = answer.Refused, answer.Message
	return true
}

// evict has a pod evicted.
func (s *Step) evict(c *Candidate) {
	pod := c.Request.Pod
	answer := s.Actuator.Evict(c)
	switch answer.Outcome {
	case Done:
		disrupted(c)
		c.Group.CountUpdate(facts.Updates{Evictions: 1})
		c.Group.Evictions = facts.Refusals{}
		if m := s.remembers(); m != nil {
			m.evicted(c, s.Clock.Now())
			timeout, failed := facts.ReplacementTimeout(s.Plan, s.VPA, *c.Group)
			s.failed(c, "replacement pod may not be tracked", failed...)
			m.Breaker.Evicted(c.Owner, pod, s.Now, timeout)
		}
	case Gone:
		disrupted(c) // the cache still shows it running
	case Unknown:
		disrupted(c)
		c.Group.CountUpdate(facts.Updates{Evictions: 1})
		if m := s.remembers(); m != nil {
			m.NoteEvicted(pod, s.Clock.Now())
		}
	case Declined:
		s.refused(c, false, answer)
	}
}

// refused asks the rules whether a refusal counts, and for which pods: repeating a request in every cycle
// would only load the API server and its webhooks.
func (s *Step) refused(c *Candidate, resize bool, answer Answer) {
	then := ""
	if resize {
		then = c.Verdict.Do
	}
	c.Refusal = facts.DecideRefused(s.Plan, facts.RefusedRequest{Resize: resize, Why: answer.Refused, Message: answer.Message, Then: then})
	s.failed(c, "refusal not counted", c.Refusal.Err)
	if m := s.remembers(); m != nil {
		m.wasRefused(c, c.Refusal.Do, resize, answer, s.Now)
	}
}

func (s *Step) failed(c *Candidate, consequence string, failed ...*engine.RuleError) {
	failed = slices.DeleteFunc(failed, func(e *engine.RuleError) bool { return e == nil })
	if s.Failed != nil && len(failed) > 0 {
		s.Failed(c, consequence, failed...)
	}
}

// disrupted counts a pod of a group as unavailable. A pending pod was unavailable before.
func disrupted(c *Candidate) {
	if c.Request.Pod.Status.Phase != corev1.PodPending {
		c.Group.Disrupted++
	}
}
