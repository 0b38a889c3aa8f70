package target

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/cycle"
)

// How long scales are remembered (UPSTREAM.md §2.4).
const (
	scaleFresh   = 10 * time.Minute // at least; at most twice as long
	scaleForget  = time.Hour        // after the last look-up
	scaleRefresh = 7 * time.Second  // between two rounds in the background
	// scaleAhead is how long before its expiry an answer is renewed, so that no look-up has to
	// wait: two rounds and a bit.
	scaleAhead = 15 * time.Second
	// missingFresh is for targets that do not exist or have no selector, which is often temporary,
	// after a VPA and its target were created together. It is doubled while that lasts, up to
	// missingMax: anyone can create thousands of such VPAs.
	missingFresh = time.Minute
	missingMax   = 10 * time.Minute
	// countFresh is the maximum age of a number of replicas.
	countFresh = 30 * time.Second
	// A read takes at most scaleTimeout; a failed one is retried after scaleRetry, doubled each
	// time up to the maximum.
	scaleTimeout  = 10 * time.Second
	scaleRetry    = 10 * time.Second
	scaleRetryMax = 2 * time.Minute
)

// purpose is the reason of a look-up.
type purpose uint8

const (
	asOwner  purpose = iota // one in a chain of owners
	asTarget                // the target of a VPA
	asCount                 // the number of its replicas, on which evictions depend
)

// Scales caches the scales of custom kinds, missing ones included, and renews them in the
// background. Failures expire soon; of a kind whose API does not answer at all, only one object is
// requested at a time. Whoever cannot wait gets what is in memory, see Resolver.Top. It is safe for
// concurrent use and implements the manager's Runnable.
type Scales struct {
	client client.Client
	clock  clock.WithTicker
	jitter func() float64

	mu      sync.Mutex
	entries map[Key]*scaleEntry
	outages map[schema.GroupKind]*failure
	// slow are the kinds with a look-up that has timed out while its attempt goes on. Timed
	// look-ups of other objects of the kind do not wait either.
	slow  map[schema.GroupKind]bool
	waits chan struct{} // of the look-ups that wait for well-known owners; see awaitKnown

	attempts uint64 // started
	crowded  int    // number of entries from which makeRoom counts them again
}

// scaleEntry is the last answer about one scale and, if the last attempt failed, the failure.
type scaleEntry struct {
	scaleAnswer
	answered, until time.Time // time of the answer, and its expiry; zero without one
	noSelectorSince time.Time // since when the answer has no selector; zero = it has one
	missed          time.Time // since when it can be no target; zero = it can
	attempt         uint64    // number of the attempt that returned it
	asked           types.UID // of the requested object, if an owner reference named it
	failure         failure
	read            time.Time // the last look-up
	target          bool      // looked up as a target
	kept            bool      // looked up not only by reviews of pods; see makeRoom

	// Of the current attempt; busy is closed at its end, and nil without one.
	busy   chan struct{}
	since  time.Time
	number uint64
	asking types.UID
}

type scaleAnswer struct {
	controller controller
	found      bool
	err        error // a permanent one
}

// missing reports that it can be no target of a VPA.
func (a scaleAnswer) missing() bool { return !a.found || a.controller.selector == nil }

// failure is one in a row of failed attempts.
type failure struct {
	err   error // nil = none
	times int
	retry time.Time
}

func (f *failure) add(err error, now time.Time) {
	f.times++
	f.err, f.retry = err, now.Add(min(scaleRetry<<min(f.times-1, 10), scaleRetryMax))
}

// NewScales returns an empty cache. jitter returns numbers in [0, 1) that stretch the lifetime of
// answers, so that they do not all expire at once; nil = random ones.
func NewScales(api client.Client, clk clock.WithTicker, jitter func() float64) *Scales {
	if jitter == nil {
		jitter = rand.Float64
	}
	return &Scales{client: api, clock: clk, jitter: jitter, entries: map[Key]*scaleEntry{},
		outages: map[schema.GroupKind]*failure{}, slow: map[schema.GroupKind]bool{}, waits: make(chan struct{}, lateWaits)}
}

// NeedLeaderElection is false: every replica looks targets up.
func (s *Scales) NeedLeaderElection() bool { return false }

// Start renews answers in the background until the context ends.
func (s *Scales) Start(ctx context.Context) error {
	cycle.Every(ctx, s.clock, scaleRefresh, func() { s.refresh(ctx) })
	return nil
}

// get answers from the cache, or waits for the API server.
func (s *Scales) get(ctx context.Context, k Key, q question) (controller, bool, error) {
	s.mu.Lock()
	now := s.clock.Now()
	e := s.entry(k, q.as, now)
	e.kept = true
	if c, found, known, err := s.current(k, e, q, now); known {
		s.mu.Unlock()
		return c, found, err
	}
	if e.busy == nil {
		s.begin(e, cmp.Or(q.uid, e.asked))
		go s.ask(k, e)
	}
	busy := e.busy
	s.mu.Unlock()
	select {
	case <-busy:
	case <-ctx.Done():
		return controller{}, false, fmt.Errorf("waiting for the scale of %s in namespace %s: %w", k, k.Namespace, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.failure.err != nil {
		return controller{}, false, e.failure.err
	}
	return e.controller, e.found, e.err
}

// current answers from memory as get does; known is false when it takes the API server. s.mu is held.
func (s *Scales) current(k Key, e *scaleEntry, q question, now time.Time) (c controller, found, known bool, err error) {
	if now.Before(e.until) && (q.as != asCount || now.Sub(e.answered) < countFresh) {
		return e.controller, e.found, true, e.err
	}
	if err := s.held(k, e, now); err != nil {
		return controller{}, false, true, err
	}
	return controller{}, false, false, nil
}

// known is what get returns without the API server, which the background asks for what is missing.
func (s *Scales) known(k Key, q question) (c controller, found, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	e := s.entry(k, q.as, now)
	e.kept = true
	return s.current(k, e, q, now)
}

// entry finds or adds the entry of a key for a look-up. s.mu is held.
func (s *Scales) entry(k Key, as purpose, now time.Time) *scaleEntry {
	e := s.entries[k]
	if e == nil {
		e = &scaleEntry{}
		s.entries[k] = e
	}
	e.read = now
	if as == asTarget && !e.target {
		e.target = true
		if end := e.answered.Add(missingFresh); e.missing() && end.Before(e.until) {
			e.until = end
		}
	}
	return e
}

// begin records the start of an attempt about the object with a UID, which the caller makes with
// ask. s.mu is held, and there is no current attempt.
func (s *Scales) begin(e *scaleEntry, uid types.UID) {
	s.attempts++
	e.busy, e.since, e.number, e.asking = make(chan struct{}), s.clock.Now(), s.attempts, uid
}

// held is the failure whose retry is not due yet; nil = ask now. s.mu is held.
func (s *Scales) held(k Key, e *scaleEntry, now time.Time) error {
	if e.failure.err != nil && now.Before(e.failure.retry) {
		return e.failure.err
	}
	if out := s.outages[k.groupKind()]; out != nil && now.Before(out.retry) {
		return fmt.Errorf("reading the scale of %s in namespace %s: %w", k, k.Namespace, out.err)
	}
	return nil
}

// ask asks the API server and ends the attempt that begin recorded in e.
func (s *Scales) ask(k Key, e *scaleEntry) {
	var answer scaleAnswer
	var failed error
	defer func() {
		if p := recover(); p != nil {
			failed = apierrors.NewInternalError(fmt.Errorf("reading the scale of %s in namespace %s: panic: %v", k, k.Namespace, p))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.store(k, e, answer, failed)
		close(e.busy)
		e.busy = nil
	}()
	// Others wait for the answer, too: canceling the first look-up must not cancel theirs.
	ctx, cancel := context.WithTimeout(context.Background(), scaleTimeout)
	defer cancel()
	answer.controller, answer.found, failed = readScale(ctx, s.client, k)
	if isPermanent(failed) {
		answer.err, failed = failed, nil
	}
}

// store records the outcome of an attempt. s.mu is held.
func (s *Scales) store(k Key, e *scaleEntry, answer scaleAnswer, failed error) {
	now := s.clock.Now()
	kind := k.groupKind()
	delete(s.slow, kind) // the next attempt shows whether it still is
	if failed != nil {
		e.failure.add(failed, now)
		if silent(failed) {
			if s.outages[kind] == nil {
				s.outages[kind] = &failure{}
			}
			s.outages[kind].add(cause(failed), now)
		}
		return
	}
	delete(s.outages, kind)
	switch {
	case !answer.missing():
		e.missed = time.Time{}
	case e.missed.IsZero():
		e.missed = now
	}
	fresh := scaleFresh + time.Duration(s.jitter()*float64(scaleFresh))
	if e.target && answer.missing() {
		fresh = min(max(now.Sub(e.missed), missingFresh), missingMax)
	}
	e.scaleAnswer, e.answered, e.until, e.failure, e.asked = answer, now, now.Add(fresh), failure{}, e.asking
	e.attempt = e.number
	switch {
	case !answer.found || answer.controller.selector != nil:
		e.noSelectorSince = time.Time{}
	case e.noSelectorSince.IsZero():
		e.noSelectorSince = now
	}
}

// cause is an error without its context.
func cause(err error) error {
	if wrapped, ok := err.(interface{ Unwrap() error }); ok && wrapped.Unwrap() != nil {
		return wrapped.Unwrap()
	}
	return err
}

// refresh drops entries without look-ups, and renews one by one those that expire soon or have
// failed. During an outage it asks the object that is likeliest to exist first.
func (s *Scales) refresh(ctx context.Context) {
	for _, k := range s.due() {
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		e := s.entries[k]
		if e == nil || e.busy != nil || s.held(k, e, s.clock.Now()) != nil {
			s.mu.Unlock()
			continue
		}
		s.begin(e, e.asked)
		s.mu.Unlock()
		s.ask(k, e)
	}
}

func (s *Scales) due() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for kind, out := range s.outages {
		if now.Sub(out.retry) > scaleForget {
			delete(s.outages, kind)
		}
	}
	probes := s.probes(now)
	var due []Key
	for k, e := range s.entries {
		switch {
		case e.busy != nil:
		case now.Sub(e.read) > scaleForget:
			delete(s.entries, k)
		case probes[k.groupKind()] == k: // it comes first
		case !now.Before(e.until.Add(-scaleAhead)) && s.held(k, e, now) == nil:
			due = append(due, k)
		}
	}
	slices.SortFunc(due, func(a, b Key) int { // the first to expire comes first
		return cmp.Or(s.entries[a].until.Compare(s.entries[b].until), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.AppendSeq(slices.Collect(maps.Values(probes)), slices.Values(due))
}

// groupKind is the key's group and kind; the apiVersion itself when it cannot be parsed.
func (k Key) groupKind() schema.GroupKind {
	gv, err := schema.ParseGroupVersion(k.APIVersion)
	if err != nil {
		gv.Group = k.APIVersion
	}
	return schema.GroupKind{Group: gv.Group, Kind: k.Kind}
}
