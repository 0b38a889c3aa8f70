package podupdate

import (
	"slices"
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

const (
	// rateStep is how exact rates are, and bounds what is kept of an owner: 289 steps of the last day.
	rateStep = 5 * time.Minute
	rateTime = 24 * time.Hour
)

// rates count the evictions and resizes of the last day by direct owner. They count since the first cycle.
type rates struct {
	since time.Time // zero = no cycle began
	of    map[target.Key]*updated
}

type updated struct {
	steps   []updatedStep // with updates, the oldest first
	present time.Time     // when the owner last had pods
}

type updatedStep struct {
	at time.Time
	facts.Updates
}

// within reports whether a step is at least in part after a time.
func (s updatedStep) within(begin time.Time) bool { return s.at.Add(rateStep).After(begin) }

func (r *rates) add(owner target.Key, u facts.Updates, at time.Time) {
	if r.of == nil {
		r.of = map[target.Key]*updated{}
	}
	o := r.of[owner]
	if o == nil {
		o = &updated{present: at}
		r.of[owner] = o
	}
	step := at.Truncate(rateStep)
	if n := len(o.steps); n == 0 || o.steps[n-1].at.Before(step) {
		o.steps = append(o.steps, updatedStep{at: step})
	}
	o.steps[len(o.steps)-1].Add(u)
}

// look forgets what is older than a day, and owners that have had no pods for absentTime.
func (r *rates) look(present map[target.Key]bool, now time.Time) {
	if r.since.IsZero() {
		r.since = now
	}
	for owner, o := range r.of {
		if present[owner] {
			o.present = now
		}
		o.steps = slices.DeleteFunc(o.steps, func(s updatedStep) bool { return !s.within(now.Add(-rateTime)) })
		if len(o.steps) == 0 || now.Sub(o.present) > absentTime {
			delete(r.of, owner)
		}
	}
}

// addTo sets the rates of a group.
func (r *rates) addTo(owner target.Key, g *facts.Group, now time.Time) {
	g.LastHour, g.LastDay, g.CountedFor = facts.Updates{}, facts.Updates{}, 0
	if !r.since.IsZero() {
		g.CountedFor = max(0, now.Sub(r.since))
	}
	if r.of[owner] == nil {
		return
	}
	for _, s := range r.of[owner].steps {
		if s.within(now.Add(-time.Hour)) {
			g.LastHour.Add(s.Updates)
		}
		if s.within(now.Add(-rateTime)) {
			g.LastDay.Add(s.Updates)
		}
	}
}
