package faults

import (
	"errors"
	"slices"
	"sync"
)

// open are the watches that are open now.
func (p *Proxy) open(on Match) (out []*watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.watches {
		if on.selects(w.request) {
			out = append(out, w)
		}
	}
	return out
}

// CutWatches drops the watches that are open now, in the midst of them, and returns how many there were.
func (p *Proxy) CutWatches(on Match) int {
	list := p.open(on)
	for _, w := range list {
		p.count("watch cut")
		w.cut()
	}
	return len(list)
}

// ReplayWatches sends the last n events of each open watch once more, at most 100, and returns how many were sent.
func (p *Proxy) ReplayWatches(on Match, n int) (events int) {
	for _, w := range p.open(on) {
		p.count("watch replayed")
		events += w.replay(n)
	}
	return events
}

// ExpireWatches ends the watches that are open now with an event of 410 Gone, and returns how many there were. With
// Fault{On: Watches, Effects: []Effect{Answer(410)}}, watches are refused that way.
func (p *Proxy) ExpireWatches(on Match) (int, error) {
	list := p.open(on)
	var failed []error
	for _, w := range list {
		p.count("watch expired")
		failed = append(failed, w.expire())
	}
	return len(list), errors.Join(failed...)
}

// hold keeps events back.
type hold struct {
	on   Match
	over chan struct{}
}

// HoldWatches keeps the events of watches back, of later ones as well, until release is called: what clients know gets old.
func (p *Proxy) HoldWatches(on Match) (release func()) {
	one := &hold{on: on, over: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, one)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.holds = slices.DeleteFunc(p.holds, func(h *hold) bool { return h == one })
		close(one.over)
	})
}

// waitFor waits until nothing holds a watch back.
func (p *Proxy) waitFor(w *watch) {
	p.mu.Lock()
	holds := slices.Clone(p.holds)
	p.mu.Unlock()
	for _, one := range holds {
		if one.on.selects(w.request) {
			p.count("event held")
			<-one.over
		}
	}
}
