package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// An object without a selector is read again after this time in timed look-ups; doubled each time,
// up to missingFresh. A controller usually sets the selector when it creates its first pods.
const noSelectorFresh = time.Second

const (
	// lateFor is how long a look-up waits for a well-known owner that an owner reference names and
	// the cache lacks. The cache receives a new ReplicaSet at about the same time as the controller
	// that creates its pods.
	lateFor = 250 * time.Millisecond
	lateTry = 10 * time.Millisecond // between two reads of the cache
	// lateWaits is how many look-ups wait so at once by default; see LimitWaits.
	lateWaits = 10
	// maxReviewed is how many scales are remembered that only reviews of pods have asked for.
	maxReviewed = 10_000
)

// errNotYet is the error of a look-up that ran out of time.
var errNotYet = errors.New("the API server has not answered yet; its answer will be remembered")

// recall answers from memory only; known is false when there is no answer in memory.
func (s *Scales) recall(k Key, q question) (c controller, found, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[k] == nil {
		return controller{}, false, false, nil
	}
	now := s.clock.Now()
	e := s.entry(k, q.as, now)
	if !e.counts(q, now) {
		return controller{}, false, false, nil
	}
	return e.controller, e.found, true, e.err
}

// counts reports whether an answer is good enough for a timed look-up. An expired answer counts for
// some time: the background has tried to renew it, and there is no better one.
func (e *scaleEntry) counts(q question, now time.Time) bool {
	if e.answered.IsZero() || now.Sub(e.until) > scaleForget {
		return false
	}
	if e.found && q.as == asTarget && e.controller.selector == nil {
		return now.Sub(e.answered) < min(max(e.answered.Sub(e.noSelectorSince), noSelectorFresh), missingFresh)
	}
	// An answer may be older than the object to which an owner reference points now, or about an
	// earlier object of the name. An answer about this object is remembered.
	return q.uid == "" || q.uid == e.asked || e.found && (e.controller.uid == "" || e.controller.uid == q.uid)
}

// soon asks the API server for what recall lacks, and waits until the deadline at most; the attempt
// continues in the background. For one object no look-up waits longer than Patience after the start
// of the attempt. After a failure look-ups do not wait until the retry; an earlier answer, even
// about another object of the name, takes precedence over a failure.
func (s *Scales) soon(ctx context.Context, k Key, q question, end time.Time) (controller, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.attempts
	for {
		now := s.clock.Now()
		if s.entries[k] == nil {
			s.makeRoom()
		}
		e := s.entry(k, q.as, now)
		if e.counts(q, now) || e.attempt > before { // or as good as an answer of our own attempt
			return e.controller, e.found, e.err
		}
		failed := s.held(k, e, now)
		if failed == nil {
			if e.busy == nil {
				s.begin(e, cmp.Or(q.uid, e.asked))
				go s.ask(k, e)
			}
			if failed = s.await(ctx, k, e, end.Sub(now)); failed == nil {
				continue
			}
		}
		if e.found && now.Sub(e.until) <= scaleForget {
			return e.controller, true, nil
		}
		return controller{}, false, failed
	}
}

// await waits for the end of the current attempt; an error means a timeout. s.mu is held, but not
// while waiting.
func (s *Scales) await(ctx context.Context, k Key, e *scaleEntry, most time.Duration) error {
	busy, kind := e.busy, k.groupKind()
	most = min(most, Patience-s.clock.Since(e.since))
	err := errNotYet
	if most > 0 && !s.slow[kind] {
		timer := s.clock.NewTimer(most)
		s.mu.Unlock()
		select {
		case <-busy:
		case <-timer.C():
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		s.mu.Lock()
	}
	if e.busy != busy {
		return nil
	}
	if s.clock.Since(e.since) >= Patience {
		s.slow[kind] = true
	}
	return fmt.Errorf("waiting for the scale of %s in namespace %s: %w", k, k.Namespace, err)
}

// makeRoom makes room for an entry that a review adds: it drops those without a look-up for longest, a
// tenth of maxReviewed at a time, so that a flood of new owners does not sort them each time. s.mu is held.
func (s *Scales) makeRoom() {
	if len(s.entries) < s.crowded {
		return
	}
	var reviewed []Key
	for k, e := range s.entries {
		if !e.kept {
			reviewed = append(reviewed, k)
		}
	}
	const room = maxReviewed / 10
	if excess := len(reviewed) - (maxReviewed - room); excess > 0 {
		slices.SortFunc(reviewed, func(a, b Key) int { return s.entries[a].read.Compare(s.entries[b].read) })
		for _, k := range reviewed[:excess] {
			delete(s.entries, k)
		}
	}
	s.crowded = len(s.entries) + room
}

// awaitKnown looks for an object until it is found, or the deadline or lateFor has passed. No look-up
// waits while as many as may are waiting.
func (s *Scales) awaitKnown(ctx context.Context, end time.Time, look func() (found bool, err error)) error {
	last := s.clock.Now().Add(lateFor)
	if end.Before(last) {
		last = end
	}
	select {
	case s.waits <- struct{}{}:
		defer func() { <-s.waits }()
	default:
		return nil
	}
	for s.clock.Now().Before(last) {
		timer := s.clock.NewTimer(lateTry)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for an owner that the cache does not have yet: %w", ctx.Err())
		}
		if found, err := look(); found || err != nil {
			return err
		}
	}
	return nil
}

// LimitWaits sets how many timed look-ups, at least one, may wait at once for well-known owners that
// the cache lacks. Others go on as if they had waited: a pod may name an owner that never appears,
// and a review that waits takes the place of others. Call it before the first look-up.
func (s *Scales) LimitWaits(most int) { s.waits = make(chan struct{}, max(most, 1)) }
