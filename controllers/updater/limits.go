package updater

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
)

// Limits are the rates of evictions and resizes: two independent token buckets (UPSTREAM.md §5.5).
// The zero value sets no limit. It is safe for concurrent use.
type Limits struct {
	Evictions *rate.Limiter // nil = unlimited
	Resizes   *rate.Limiter // nil = unlimited; shared with the ends of startup boosts
}

// NewLimits allows this many evictions a second, and as many resizes, after a burst of each. A rate
// of 0 or less sets no limit; with any other the burst must be at least 1.
func NewLimits(perSecond float64, burst int) Limits {
	if perSecond <= 0 {
		return Limits{}
	}
	return Limits{Evictions: rate.NewLimiter(rate.Limit(perSecond), burst), Resizes: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// wait waits for a limiter. It returns an error at once if the wait would exceed the deadline of
// the context.
func wait(ctx context.Context, l *rate.Limiter) error {
	if l == nil {
		return ctx.Err()
	}
	return l.Wait(ctx)
}

// firstCycles bounds the pods that a cycle evicts, or restarts by a resize, while this process is
// new: after an install or an upgrade, a cluster full of pods may be off its recommendation at
// once. A cycle that needs more than its limit doubles it for the next one, so a healthy cluster
// soon has no limit in practice. It is safe for concurrent use.
type firstCycles struct {
	mu        sync.Mutex
	limit     int // of a cycle; 0 = none
	left      int
	postponed int // pods in this cycle
}

// maxFirst is where the limit stops doubling.
const maxFirst = 1 << 30

// next starts a cycle. It returns what the last one postponed, and the limit of the one that starts.
func (f *firstCycles) next() (postponed, limit int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if postponed = f.postponed; postponed > 0 && f.limit < maxFirst {
		f.limit *= 2
	}
	f.left, f.postponed = f.limit, 0
	return postponed, f.limit
}

// peek returns how many pods the next cycle may disrupt; limited is false without a limit.
func (f *firstCycles) peek() (left int, limited bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left = f.limit
	if f.postponed > 0 && f.limit < maxFirst {
		left *= 2
	}
	return left, f.limit > 0
}

// take reports whether one more pod may be disrupted in this cycle.
func (f *firstCycles) take() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.limit <= 0:
	case f.left == 0:
		f.postponed++
		return false
	default:
		f.left--
	}
	return true
}

// giveBack returns the place of a pod that was not disrupted after all.
func (f *firstCycles) giveBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left++
}

// allowance is what the limits of a process leave to a cycle that starts now, for all VPAs together.
type allowance struct {
	first              int
	limited            bool    // by --first-cycle-evictions
	evictions, resizes float64 // by --eviction-rate-limit
}

// unlimited is more than any cluster has pods.
const unlimited = 1 << 40

func (r *run) allowance() allowance {
	a := allowance{evictions: tokens(r.Limits.Evictions, r.now, r.Interval), resizes: tokens(r.Limits.Resizes, r.now, r.Interval)}
	a.first, a.limited = r.first.peek()
	return a
}

// tokens are those that a limiter has and gets within a time.
func tokens(l *rate.Limiter, now time.Time, within time.Duration) float64 {
	if l == nil {
		return unlimited
	}
	return l.TokensAt(now) + float64(l.Limit())*within.Seconds()
}

// preview takes what the decisions of a step need from an allowance, and has nothing carried out.
type preview struct {
	*allowance
	later string // why the last pod has to wait for a later cycle; empty = it has not
}

var _ podupdate.Actuator = (*preview)(nil)

// Evict implements podupdate.Actuator.
func (p *preview) Evict(*podupdate.Candidate) podupdate.Answer { return p.take(&p.evictions, true) }

// Resize implements podupdate.Actuator.
func (p *preview) Resize(c *podupdate.Candidate, change facts.PodChange) podupdate.Answer {
	return p.take(&p.resizes, facts.Restarts(c.Request.Pod, change))
}

func (p *preview) take(left *float64, disrupts bool) podupdate.Answer {
	switch {
	case *left < 1:
		p.later = postponedByRate
	case disrupts && p.limited && p.first == 0:
		p.later = postponedByStart
	default:
		*left--
		if disrupts {
			p.first--
		}
		return podupdate.Answer{}
	}
	return podupdate.Answer{Outcome: podupdate.Left}
}
