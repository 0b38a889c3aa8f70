package updater

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
)

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

// take takes what a decision needs. If there is not enough, it returns why the pod has to wait for a
// later cycle.
func (a *allowance) take(c *candidate) (later string) {
	left := &a.evictions
	disrupts := c.verdict.Do == facts.DoEvict
	if podupdate.Resizes(c.verdict.Do) {
		left, disrupts = &a.resizes, facts.Restarts(c.request.Pod, podupdate.ChangeOf(c.Pod, c.verdict))
	}
	switch {
	case *left < 1:
		return postponedByRate
	case disrupts && a.limited && a.first == 0:
		return postponedByStart
	}
	*left--
	if disrupts {
		a.first--
	}
	return ""
}
