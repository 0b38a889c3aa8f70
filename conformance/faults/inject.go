package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Effect is what happens to a request.
type Effect struct {
	Name string // in Counts

	// happen has the request answered, or leaves it to be forwarded. over is closed when the Fault ends.
	happen func(p *Proxy, w http.ResponseWriter, r *http.Request, over <-chan struct{}) (answered bool)
}

// Answer refuses requests with the status that API servers have for an HTTP code, e.g. 409, 410, 429, 500, 503 or 504.
func Answer(code int) Effect {
	return Effect{Name: strconv.Itoa(code), happen: func(_ *Proxy, w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		refuse(w, r, code, 0)
		return true
	}}
}

// AnswerLater is Answer with a Retry-After of some seconds, after which clients try again by themselves.
func AnswerLater(code, seconds int) Effect {
	return Effect{Name: strconv.Itoa(code) + " Retry-After", happen: func(_ *Proxy, w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		refuse(w, r, code, seconds)
		return true
	}}
}

func refuse(w http.ResponseWriter, r *http.Request, code, retryAfter int) {
	request := requestIn(r)
	status := apierrors.NewGenericServerResponse(code, request.Verb, schema.GroupResource{Group: request.APIGroup, Resource: request.Resource},
		request.Name, "refused by a fault", retryAfter, false).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if code == http.StatusGone {
		status.Reason = metav1.StatusReasonExpired
	}
	w.Header().Set("Content-Type", "application/json")
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
}

// Hang does not answer until the client gives up or the fault ends. The request never reaches the API server.
func Hang() Effect {
	return Effect{Name: "hang", happen: func(_ *Proxy, _ http.ResponseWriter, r *http.Request, over <-chan struct{}) bool {
		select {
		case <-over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}}
}

// Reset drops the connection of the client, and with it all that it waits for.
func Reset() Effect {
	return Effect{Name: "reset", happen: func(_ *Proxy, _ http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		reset(r)
		return true
	}}
}

// unanswered is what becomes of a request that the API server does not answer, because it is gone, unless the client has gone.
func unanswered(r *http.Request) {
	if r.Context().Err() == nil {
		reset(r)
	}
	panic(http.ErrAbortHandler)
}

// reset does not return.
func reset(r *http.Request) {
	conn, _ := r.Context().Value(connection{}).(net.Conn)
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // RST instead of FIN
		_ = tcp.Close()
	}
	panic(http.ErrAbortHandler)
}

// Lose lets the API server carry out the request, and drops its answer. It is for calls: a watch has no answer that ends.
func Lose() Effect {
	return Effect{Name: "lose", happen: func(p *Proxy, _ http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		p.forward.ServeHTTP(nowhere{}, r)
		panic(http.ErrAbortHandler)
	}}
}

// nowhere drops an answer.
type nowhere struct{}

// Header implements http.ResponseWriter.
func (nowhere) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}

// Delay forwards a request after some time.
func Delay(by time.Duration) Effect {
	return Effect{Name: "delay", happen: func(_ *Proxy, _ http.ResponseWriter, r *http.Request, over <-chan struct{}) bool {
		select {
		case <-time.After(by):
		case <-over:
		case <-r.Context().Done():
		}
		return false
	}}
}

// rewrite is a change of answers in force.
type rewrite struct {
	on     Match
	change func(*http.Request, []byte) []byte
}

// Rewrite changes the bodies of the answers to requests, which are JSON, until end is called. Watches are left alone. Answers
// that refuse are changed as well. Such a request is carried out to its end, although its client no longer waits: see Client.
func (p *Proxy) Rewrite(on Match, change func(*http.Request, []byte) []byte) (end func()) {
	one := &rewrite{on: on, change: change}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rewrites = append(p.rewrites, one)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rewrites = slices.DeleteFunc(p.rewrites, func(r *rewrite) bool { return r == one })
	})
}

// Client is the context of the client that waits for the answer to a request, for changes of answers.
func Client(r *http.Request) context.Context { return r.Context().Value(waiting{}).(context.Context) }

func (p *Proxy) rewritesOf(request Request) (out []*rewrite) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rewrite := range p.rewrites {
		if request.Verb != "watch" && rewrite.on.selects(request) {
			out = append(out, rewrite)
		}
	}
	return out
}

// rewrite changes an answer. One that is not JSON, because it was asked for before the change was in force, stays as it is.
func (p *Proxy) rewrite(request Request, answer *http.Response) error {
	changes := p.rewritesOf(request)
	if len(changes) == 0 || answer.Header.Get("Content-Type") != "application/json" {
		return nil
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("reading the answer to %s: %w", request, err)
	}
	if err := answer.Body.Close(); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", request, err)
	}
	for _, change := range changes {
		p.count("rewritten")
		body = change.change(answer.Request, body)
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}
