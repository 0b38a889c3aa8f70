// Package webhook is the admission server. It gives new pods their recommended resources and refuses invalid
// VerticalPodAutoscalers; rules decide both. A fault of its own never keeps a pod from being created.
//
// A review comes in through Listener (HTTPS), is read, bounded and timed by Server, and answered by Handler, which looks up what
// concerns the object and asks podreview or vpareview. Registrar keeps the MutatingWebhookConfiguration in place, with the CAs of
// package certificates.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// maxBody bounds a request, in bytes (UPSTREAM.md §4.1).
	maxBody = 5 << 20
	// firstRead is the buffer for a request of which nothing has arrived, in bytes.
	firstRead = 8 << 10
	// MaxConnections bounds the connected clients. An API server needs one for each review in flight.
	MaxConnections = 1000
	// queueWait is how long a review waits for a slot. Slots free up within milliseconds, or not soon.
	queueWait = 100 * time.Millisecond
)

// Server answers AdmissionReviews over HTTP, at any path. It always answers in time, and its own failures block nobody: when a
// request cannot be parsed, takes too long or makes the handler panic, it allows the object without a patch, counts that and
// logs it (UPSTREAM.md §4.1, Appendix B 5). Only the handler refuses.
type Server struct {
	handler  admission.Handler
	timeout  time.Duration
	slots    chan struct{} // of reviews that run
	workers  workers
	queueFor time.Duration
	memory   *reviewMemory
	log      logr.Logger
	limited  *limited
}

// ServerOptions configure a Server.
type ServerOptions struct {
	// Handler answers one review. It may be called from many goroutines, is called once per review, and may panic. Its answer
	// carries the patch in Patches.
	Handler admission.Handler
	// Timeout is how long API servers wait, greater than 0; a request may ask for less. The handler's context ends a margin
	// earlier, and the answer does not wait for a handler that goes on.
	Timeout time.Duration
	// Concurrent bounds the reviews that run at once; 0 = 100 for each CPU. A review that finds no slot within 100ms is allowed
	// without a patch.
	Concurrent int
	// Memory bounds the memory of all reviews in flight, in bytes; 0 = DefaultReviewMemory. A review that finds none within 100ms
	// is allowed without a patch or, before its UID is known, answered with 503, so that the failurePolicy decides.
	Memory int64
	Clock  clock.PassiveClock // for the log only
	Log    logr.Logger
}

// NewServer returns a server that is ready to serve.
func NewServer(o ServerOptions) *Server {
	if o.Concurrent <= 0 {
		o.Concurrent = 100 * runtime.GOMAXPROCS(0)
	}
	return &Server{handler: o.Handler, timeout: o.Timeout, slots: make(chan struct{}, o.Concurrent), workers: make(workers), queueFor: queueWait,
		memory: newReviewMemory(cmp.Or(o.Memory, DefaultReviewMemory)), log: o.Log, limited: &limited{clock: o.Clock, every: 10 * time.Second}}
}

// Slots is how many reviews run at once.
func (s *Server) Slots() int { return cap(s.slots) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		s.shed(shedMalformed, "the request is not answered", "reason", fmt.Sprintf("its Content-Type is %q, not application/json", got))
		return
	}
	deadline := begin.Add(s.limit(r))
	memory := s.memory.reserve()
	defer func() { memory.release() }()
	body, err := s.read(r, memory)
	if errors.Is(err, errTooLarge) || errors.Is(err, errNoMemory) {
		s.refuse(w, err)
		return
	}
	var review admission.Request
	if err == nil {
		review, err = decode(body)
	}
	if err == nil {
		err = memory.add(r.Context(), decodedSize(review.Object.Raw)+decodedSize(review.OldObject.Raw))
	}
	switch {
	case errors.Is(err, errNoMemory):
		s.shed(shedMemory, "the object is admitted unchanged; run more replicas, or raise --max-review-memory", about(review, "reason", err.Error())...)
	case errors.Is(err, errTooLarge):
		s.shed(shedMalformed, "the object is admitted unchanged", about(review, "reason", "it has more values than fit into --max-review-memory")...)
	case err != nil:
		s.shed(shedMalformed, "the object is admitted unchanged", "uid", review.UID, "reason", err.Error())
	}
	readable := err == nil
	admitted := stepRead.since(begin)
	answered := outcome{resp: admission.Allowed(""), status: statusError}
	if readable {
		answered = s.review(review, deadline, memory)
		memory = s.memory.reserve() // a late handler keeps its reservation
	}
	built := stepAdmit.since(admitted)
	text, err := encode(review.UID, &answered.resp)
	if err != nil {
		s.log.Error(err, "the object is admitted unchanged", "uid", review.UID)
		answered = outcome{resp: admission.Allowed(""), status: statusError}
		text, _ = encode(review.UID, &answered.resp) // cannot fail
	}
	defer written.Put(text)
	writing := stepBuild.since(built)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(text.body.Len()))
	if _, err := w.Write(text.body.Bytes()); err != nil {
		if suppressed, ok := s.limited.allow("unsent"); ok {
			s.log.Info("cannot send the answer", "uid", review.UID, "reason", err.Error(), "suppressed", suppressed)
		}
	}
	stepWrite.since(writing)
	stepTotal.since(begin)
	answered.observe(review, readable, time.Since(begin))
}

// limit is the time for a request: how long the API server waits, by the request or by the registration, less a margin for the way
// back.
func (s *Server) limit(r *http.Request) time.Duration {
	limit := s.timeout
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		limit = min(limit, asked)
	}
	return limit - min(limit/5, time.Second)
}

// read reads the body of a request into a buffer that grows as bytes arrive, and reserves memory for the buffer. The error is
// errTooLarge, errNoMemory, or the reason why the body did not arrive.
func (s *Server) read(r *http.Request, memory *reservation) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	if err := memory.add(r.Context(), bodyWeight*firstRead); err != nil {
		return nil, err
	}
	memory.first = firstBuffers.Get().(*[firstRead]byte)
	body := memory.first[:0]
	for {
		if len(body) == cap(body) {
			size := min(2*cap(body), maxBody+1)
			if err := memory.add(r.Context(), int64(bodyWeight*(size-cap(body)))); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > maxBody:
			return nil, errTooLarge
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, fmt.Errorf("reading the request: %w", err)
		}
	}
}

// refuse answers a request whose UID is unknown because it was not read. The API server applies its failurePolicy.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, errTooLarge) {
		s.shed(shedMalformed, "the request is refused", "reason", fmt.Sprintf("it has more than %d bytes", maxBody))
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	s.shed(shedMemory, "the request is refused; run more replicas, or raise --max-review-memory", "reason", err.Error())
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// about returns the key/value pairs that identify a review in the log, followed by more.
func about(review admission.Request, more ...any) []any {
	return append([]any{"uid", review.UID, "resource", review.Resource.Resource, "namespace", review.Namespace, "name", review.Name}, more...)
}

// review calls the handler and waits for its answer until the deadline. It releases the memory once the handler returns.
func (s *Server) review(req admission.Request, deadline time.Time, memory *reservation) outcome {
	// The request's own context ends when this process is asked to stop; reviews in flight must not.
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if !s.acquire(ctx) {
		memory.release()
		s.shed(shedOverload, "too many reviews at once, so the object is admitted unchanged; run more replicas, or raise --max-concurrent-reviews",
			about(req, "running", len(s.slots))...)
		return outcome{resp: admission.Allowed(""), status: statusSkipped}
	}
	done := make(chan outcome, 1)
	s.workers.run(func() {
		inFlight.Inc()
		defer func() { memory.release(); <-s.slots; inFlight.Dec() }() // also after a late handler
		done <- s.call(ctx, req)
	})
	select {
	case answered := <-done:
		return answered
	case <-ctx.Done():
	}
	select {
	case answered := <-done: // just in time
		return answered
	default:
	}
	s.shed(shedDeadline, "the review timed out, so the object is admitted unchanged", about(req)...)
	return outcome{resp: admission.Allowed(""), status: statusSkipped}
}

// acquire waits up to queueFor for a slot, which the caller releases.
func (s *Server) acquire(ctx context.Context) bool {
	select {
	case s.slots <- struct{}{}:
		return true
	default:
	}
	wait := time.NewTimer(s.queueFor)
	defer wait.Stop()
	select {
	case s.slots <- struct{}{}:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

// call calls the handler and recovers its panics.
func (s *Server) call(ctx context.Context, req admission.Request) (answered outcome) {
	defer func() {
		if p := recover(); p != nil {
			s.shed(shedPanic, "the object is admitted unchanged; please report this", about(req, "panic", fmt.Sprint(p), stackKey, string(debug.Stack()))...)
			answered = outcome{resp: admission.Allowed(""), status: statusSkipped}
		}
	}()
	answered.resp = s.handler.Handle(ctx, req)
	switch {
	case !answered.resp.Allowed:
		answered.status = statusError
	case len(answered.resp.Patches) > 0:
		answered.status = statusApplied
	default:
		answered.status = statusSkipped
	}
	return answered
}
