package faults

import (
	"net/http"
	"slices"
	"sync"
)

// Fault meets a share of requests.
type Fault struct {
	On      Match    // nil = all requests
	Share   float64  // of those requests, in 0..1
	Effects []Effect // one of them at a time, each as often
}

// injected is a fault in force.
type injected struct {
	Fault
	over chan struct{}
}

// Inject puts a fault in force until end is called. Of several faults that meet a request, the first that answers it wins.
func (p *Proxy) Inject(f Fault) (end func()) {
	one := &injected{Fault: f, over: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, one)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = slices.DeleteFunc(p.faults, func(f *injected) bool { return f == one })
		close(one.over)
	})
}

// misbehaves has a request answered by a fault; false = it is to be forwarded.
func (p *Proxy) misbehaves(w http.ResponseWriter, r *http.Request, request Request) bool {
	for _, met := range p.meet(request) {
		if met.effect.happen(p, w, r, met.over) {
			return true
		}
	}
	return false
}

// met is an effect that a request meets.
type met struct {
	effect Effect
	over   <-chan struct{}
}

// meet draws the faults that a request meets.
func (p *Proxy) meet(request Request) (out []met) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if !f.On.selects(request) || p.random.Float64() >= f.Share {
			continue
		}
		effect := f.Effects[p.random.IntN(len(f.Effects))]
		p.counts[effect.Name]++
		out = append(out, met{effect, f.over})
	}
	return out
}
