package target

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/notice"
	"github.com/celvpa/celvpa/controllers/turns"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Selectors finds the pods of VPAs, and keeps the last answer while there is no new one, so that a
// short failure does not delete recommendations (UPSTREAM.md Appendix B 10). The first three fields
// are required. It is safe for concurrent use.
type Selectors struct {
	Resolver *Resolver
	Clock    clock.PassiveClock
	Grace    time.Duration // how long the last good answer is used; 0 = not at all

	mu    sync.Mutex
	last  map[types.UID]*lastSelector
	turns turns.Turns // of the look-ups that take the API server
}

// Answer is the pods that a VPA selects.
type Answer struct {
	// Selector is never nil; it matches nothing when there is a Problem and no earlier answer.
	Selector labels.Selector
	// Problem is why the target cannot be used or read; nil = it can. Its message stays the same
	// while the reason does.
	Problem *Unsupported
	// StaleSince is when an outdated Selector was found; zero = it is current.
	StaleSince time.Time
	// Unknown: there was no good answer yet, and Grace has not passed since the first look-up: it
	// is too early to say that there are no pods.
	Unknown bool
}

// lastSelector is the state of one VPA.
type lastSelector struct {
	key      Key
	answer   Answer
	asked    time.Time       // the last look-up that took the API server; zero = none
	selector labels.Selector // nil when there was no good answer, or it is too old
	at       time.Time       // of the good answer, else of the first look-up
	problem  *Unsupported    // the last that was bridged, as reported; nil since a good answer
	reason   string          // its reason as it came
}

// For returns the answer for a VPA. During a transient failure, and while a target is missing that may be
// created again, the selector stays until Grace has passed since it was found, for the same VPA with the
// same target. A target that cannot be one ends that at once.
func (s *Selectors) For(ctx context.Context, v *vpav1.VerticalPodAutoscaler) Answer {
	selector, problem := s.Resolver.Selector(ctx, v)
	return s.found(v, selector, problem)
}

// ForAll returns the answers for some VPAs. Look-ups that take the API server begin within budget;
// the VPAs of all namespaces take turns, those first that have waited longest. The others keep their
// last answer, or have none yet, and are first in the next call.
func (s *Selectors) ForAll(ctx context.Context, vpas []*vpav1.VerticalPodAutoscaler, budget time.Duration) []Answer {
	end := s.Clock.Now().Add(budget)
	out := make([]Answer, len(vpas))
	var lacking []int
	for i, v := range vpas {
		known := &search{Resolver: s.Resolver, offline: true}
		selector, problem := known.selector(ctx, v, "")
		if known.lacked {
			lacking = append(lacking, i)
		} else {
			out[i] = s.found(v, selector, problem)
		}
	}
	s.inTurn(vpas, lacking)
	for _, i := range lacking {
		v := vpas[i]
		if ctx.Err() != nil || !s.Clock.Now().Before(end) {
			out[i] = s.before(v)
			continue
		}
		out[i] = s.For(ctx, v)
		s.mu.Lock()
		s.last[v.UID].asked = s.Clock.Now()
		s.turns.Served(v.Namespace)
		s.mu.Unlock()
	}
	return out
}

// inTurn sorts VPAs, named by their index.
func (s *Selectors) inTurn(vpas []*vpav1.VerticalPodAutoscaler, of []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := map[int]time.Time{}
	for _, i := range of {
		if last := s.last[vpas[i].UID]; last != nil {
			asked[i] = last.asked
		}
	}
	slices.SortStableFunc(of, func(a, b int) int { return asked[a].Compare(asked[b]) })
	turns.Order(&s.turns, of, func(i int) (string, int) { return vpas[i].Namespace, 0 })
}

// before is the last answer for a VPA whose turn has not come.
func (s *Selectors) before(v *vpav1.VerticalPodAutoscaler) Answer {
	s.mu.Lock()
	last := s.last[v.UID]
	s.mu.Unlock()
	if last != nil && last.key == Of(v) {
		return last.answer
	}
	return s.found(v, nil, unknown("Cannot read targetRef. Reason: too many targets are being looked up; this one is waiting for its turn"))
}

// found records the outcome of a look-up and returns the answer.
func (s *Selectors) found(v *vpav1.VerticalPodAutoscaler, selector labels.Selector, problem *Unsupported) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[types.UID]*lastSelector{}
	}
	now, key := s.Clock.Now(), Of(v)
	last := s.last[v.UID]
	if last == nil || last.key != key {
		fresh := &lastSelector{key: key}
		if last == nil { // the recommendation for another target must not stay
			fresh.at = now
		}
		last = fresh
		s.last[v.UID] = last
	}
	last.answer = s.answer(last, selector, problem, now)
	return last.answer
}

// answer updates the state of a VPA with the outcome of a look-up.
func (s *Selectors) answer(last *lastSelector, selector labels.Selector, problem *Unsupported, now time.Time) Answer {
	if problem != nil && !problem.Transient && !(problem.Missing && last.selector != nil) {
		*last = lastSelector{key: last.key, asked: last.asked}
		return Answer{Selector: labels.Nothing(), Problem: problem}
	}
	if problem == nil {
		last.selector, last.at, last.problem, last.reason = selector, now, nil, ""
		return Answer{Selector: selector}
	}
	end := last.at.Add(s.Grace)
	if last.selector != nil && !now.Before(end) {
		last.selector, last.problem = nil, nil
	}
	if last.problem == nil || !notice.SameButNumbers(last.reason, problem.Message) {
		reported := *problem
		if last.selector != nil {
			reported.Message = fmt.Sprintf("%s; the pods that were selected before are still used, until %s", problem.Message, end.UTC().Format(time.RFC3339))
		}
		last.problem, last.reason = &reported, problem.Message
	}
	if last.selector == nil {
		return Answer{Selector: labels.Nothing(), Problem: last.problem, Unknown: now.Before(end)}
	}
	return Answer{Selector: last.selector, Problem: last.problem, StaleSince: last.at}
}

// Keep drops the VPAs whose UID is not live.
func (s *Selectors) Keep(keep func(types.UID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.last {
		if !keep(uid) {
			delete(s.last, uid)
		}
	}
}
