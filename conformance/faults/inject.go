package faults

import (
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
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
	i := &injected{Fault: f, over: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, i)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = slices.DeleteFunc(p.faults, func(f *injected) bool { return f == i })
		close(i.over)
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

// Request is a request as API servers classify it: its verb, resource, namespace and name.
type Request struct{ *apirequest.RequestInfo }

// String is the verb and the resource, as in "patch pods/resize"; the path of a request that is not about a resource.
func (r Request) String() string {
	if !r.IsResourceRequest {
		return r.Verb + " " + r.Path
	}
	return r.Verb + " " + r.resource()
}

func (r Request) resource() string {
	if r.Subresource != "" {
		return r.Resource + "/" + r.Subresource
	}
	return r.Resource
}

var classifier = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// requestOf classifies a request. One that an API server could not classify is known by its path.
func requestOf(r *http.Request) Request {
	info, err := classifier.NewRequestInfo(r)
	if err != nil {
		info = &apirequest.RequestInfo{Verb: r.Method, Path: r.URL.Path}
	}
	return Request{info}
}

// The keys of a request's context.
type (
	classified struct{} // a Request
	connection struct{} // a net.Conn
	waiting    struct{} // the context of the client, for requests whose answers are changed
)

func requestIn(r *http.Request) Request { return r.Context().Value(classified{}).(Request) }

// Match selects requests.
type Match func(Request) bool

// On selects requests for a resource, such as pods/eviction, by verb; no verb = all verbs.
func On(resource string, verbs ...string) Match {
	return func(r Request) bool {
		return r.IsResourceRequest && r.resource() == resource && (len(verbs) == 0 || slices.Contains(verbs, r.Verb))
	}
}

// Calls selects all requests about resources but watches.
func Calls(r Request) bool { return r.IsResourceRequest && r.Verb != "watch" }

// Watches selects all watches.
func Watches(r Request) bool { return r.Verb == "watch" }

// selects reports whether a request is meant; no Match selects all.
func (m Match) selects(r Request) bool { return m == nil || m(r) }
