package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Of an object without a selector is asked anew so long after the answer, for who is in haste; each time twice as long, up to
// missingFresh. A controller mostly gets its selector in the moment in which its first pods are made.
const bareFresh = time.Second

const (
	// lateFor is how long an owner of a well-known kind is waited for that an owner reference names and the cache does not have. The
	// cache hears of a new ReplicaSet at about the same time as the controller that makes its pods.
	lateFor = 250 * time.Millisecond
	lateTry = 10 * time.Millisecond // between two looks into the cache
	// lateForget is how long it is remembered that one did not come, and maxLate how many of them are.
	lateForget = 10 * time.Minute
	maxLate    = 10_000
)

// errNotYet is why there is no answer when there was no time to wait for one.
var errNotYet = errors.New("the API server has not answered yet; its answer will be remembered")

// recall answers from memory only; known is false when the memory does not have it.
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

// counts reports whether an answer is good enough for who is in haste. What has ended counts on for a time: the background has
// tried to renew it, and nobody knows better.
func (e *scaleEntry) counts(q question, now time.Time) bool {
	if e.answered.IsZero() || now.Sub(e.until) > scaleForget {
		return false
	}
	if e.found && q.as == asTarget && e.controller.selector == nil {
		return now.Sub(e.answered) < min(max(e.answered.Sub(e.bare), bareFresh), missingFresh)
	}
	// That there is none was perhaps so before the object was made to which an owner reference now points; and what there is may
	// be another one of the same name. Once asked for this object, it is remembered.
	return q.uid == "" || q.uid == e.asked || e.found && (e.controller.uid == "" || e.controller.uid == q.uid)
}

// soon asks the API server for what recall does not have, and waits until the end at most. The attempt goes on in the background.
// For one object nobody waits longer than Patience since it began. A failure is remembered and nobody waits for it again
// before its retry; an answer from before, even about another object of the name, counts for more than a failure.
func (s *Scales) soon(ctx context.Context, k Key, q question, end time.Time) (controller, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.attempts
	for {
		now := s.clock.Now()
		e := s.entry(k, q.as, now)
		if e.counts(q, now) || e.attempt > before { // or it is as good as one of our own would be
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

// await waits for the end of the attempt under way; an error means that there was none in time. s.mu is held, but not while waiting.
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

// awaitKnown looks for an object, named by its UID, until it is found, the end has come or lateFor has passed since it was first
// missed. An object that never comes is waited for once.
func (s *Scales) awaitKnown(ctx context.Context, uid types.UID, end time.Time, look func() (found bool, err error)) error {
	last := s.missed(uid).Add(lateFor)
	if end.Before(last) {
		last = end
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

// missed is when an object was first missed, now included.
func (s *Scales) missed(uid types.UID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if first, ok := s.late[uid]; ok && now.Sub(first) < lateForget {
		return first
	}
	if len(s.late) >= maxLate {
		clear(s.late) // some are waited for once more
	}
	s.late[uid] = now
	return now
}
