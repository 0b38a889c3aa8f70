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
