package model

import (
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
)

// recentParts is how many parts the time of recent samples has; that of the newest sample begins one more.
const recentParts = 15

// recent keeps the largest samples of the last time, part by part.
type recent struct {
	part  time.Duration
	begun time.Time // its first sample
	last  time.Time // its newest
	peaks [recentParts + 1]struct {
		part int64 // since 1970
		peak facts.Amounts
	}
}

func (r *recent) add(peak facts.Amounts, at time.Time) {
	if r.begun.IsZero() || at.Before(r.begun) {
		r.begun = at
	}
	r.last = latest(r.last, at)
	r.put(at.UnixNano()/int64(r.part), peak)
}

func (r *recent) put(part int64, peak facts.Amounts) {
	if part < 0 {
		return // before 1970
	}
	slot := &r.peaks[part%int64(len(r.peaks))]
	switch {
	case slot.part < part:
		slot.part, slot.peak = part, peak
	case slot.part == part:
		slot.peak = slot.peak.Larger(peak)
	}
}

// merge adds what is known of other containers.
func (r *recent) merge(other *recent) {
	if other == nil || other.part != r.part || other.begun.IsZero() {
		return
	}
	if r.begun.IsZero() || other.begun.Before(r.begun) {
		r.begun = other.begun
	}
	r.last = latest(r.last, other.last)
	for _, slot := range other.peaks {
		r.put(slot.part, slot.peak)
	}
}

// facts are the peaks up to the newest sample; nil knows nothing.
func (r *recent) facts() (out facts.Recent) {
	if r == nil || r.begun.IsZero() {
		return out
	}
	newest := r.last.UnixNano() / int64(r.part)
	for _, slot := range r.peaks {
		if newest-slot.part <= recentParts {
			out.Peak = out.Peak.Larger(slot.peak)
		}
	}
	out.Known = min(r.last.Sub(r.begun), recentParts*r.part)
	return out
}

// newRecent is for windows that keep something; else nil.
func newRecent(w facts.Window) *recent {
	if w.Recent <= 0 {
		return nil
	}
	return &recent{part: max(w.Recent/recentParts, 1)}
}
