package main

import (
	"slices"
	"sync"
	"time"
)

// fault is something that goes wrong for a while.
type fault struct {
	kind     kind
	on       string // a component; empty = all
	from, to time.Time
}

// faultLog is what went wrong when.
type faultLog struct {
	mu   sync.Mutex
	list []*fault
}

// begin takes note of a fault until end is called.
func (l *faultLog) begin(kind kind, on string) (end func()) {
	added := l.add(fault{kind: kind, on: on, from: time.Now(), to: never})
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		added.to = time.Now()
	})
}

func (l *faultLog) add(f fault) *fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, &f)
	return &f
}

var never = time.Unix(1<<40, 0)

// during reports whether a fault of some kinds was in force on a component at a moment, or ended less than after before it.
func (l *faultLog) during(kinds []kind, on string, at time.Time, after time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.list, func(f *fault) bool {
		return slices.Contains(kinds, f.kind) && (f.on == "" || f.on == on) && !at.Before(f.from) && at.Before(f.to.Add(after))
	})
}

// counts are how often each kind occurred.
func (l *faultLog) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for _, f := range l.list {
		out[string(f.kind)]++
	}
	return out
}

// What a component may not know yet: what happened in the last seconds, and what happened since a fault that kept news from it.
const (
	newsTake = 10 * time.Second
	// A reflector waits for up to a minute before it tries again.
	newsReturnWithin = time.Minute
)

// known is the begin of what a component may not know at a moment.
func (l *faultLog) known(on string, at time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := at
	for _, f := range l.list {
		keepsNews := slices.Contains(keepNews, f.kind) && (f.on == "" || f.on == on)
		if keepsNews && f.from.Before(at) && at.Before(f.to.Add(newsReturnWithin)) && f.from.Before(out) {
			out = f.from
		}
	}
	return out.Add(-newsTake)
}
