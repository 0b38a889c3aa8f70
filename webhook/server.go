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
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// maxBody is the largest review that is read (UPSTREAM.md §4.1).
	maxBody = 5 << 20
	// firstRead is how many bytes of a request are made room for before any of it has arrived.
	firstRead = 8 << 10
	// readWait is how long a request may take to arrive. API servers send theirs at once.
	readWait = 5 * time.Second
	// queueWait is how long a review waits for its turn. The turn of a pod comes in milliseconds, or not soon.
	queueWait = 100 * time.Millisecond
)

// Server answers the AdmissionReviews of API servers over HTTP, whatever the path. Whatever goes wrong it answers in time, and
// nobody is kept from anything by it: a review that cannot be read, takes too long or makes the handler panic is allowed
// without a patch, counted and logged (UPSTREAM.md §4.1, Appendix B 5). What is invalid is refused by the handler only.
type Server struct {
	handler  admission.Handler
	timeout  time.Duration
	turns    chan struct{}
	queueFor time.Duration
	memory   *reviewMemory
	log      logr.Logger
	seldom   *seldom
}

// ServerOptions are what a Server needs.
type ServerOptions struct {
	// Handler answers one review. It may be called from many goroutines, is called once per review, and may panic. Its answer
	// carries the patch in Patches.
	Handler admission.Handler
	// Timeout is how long API servers wait; one that says in its request that it waits shorter is believed. It must be greater
	// than 0. The handler's context ends a margin before that, and the answer does not wait for a handler that goes on.
	Timeout time.Duration
	// Concurrent is how many reviews run at once, at most; 0 = 100 for each CPU. A review that does not get its turn in
	// 100ms is allowed without a patch.
	Concurrent int
	// Memory is how many bytes the reviews in flight may take together; 0 = DefaultReviewMemory. A review that finds it taken for
	// 100ms is allowed without a patch, or, before its UID is known, answered with 503, for which the API server has its
	// failurePolicy.
	Memory int64
	Clock  clock.PassiveClock // of the log only
	Log    logr.Logger
}

// NewServer prepares a server.
func NewServer(o ServerOptions) *Server {
	if o.Concurrent <= 0 {
		o.Concurrent = 100 * runtime.GOMAXPROCS(0)
	}
	return &Server{handler: o.Handler, timeout: o.Timeout, turns: make(chan struct{}, o.Concurrent), queueFor: queueWait,
		memory: newReviewMemory(cmp.Or(o.Memory, DefaultReviewMemory)), log: o.Log, seldom: &seldom{clock: o.Clock, every: 10 * time.Second}}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		s.shed(shedMalformed, "the request is left without an answer", "reason", fmt.Sprintf("its Content-Type is %q, not application/json", got))
		return
	}
	deadline := begin.Add(s.limit(r))
	memory := s.memory.reserve()
	defer func() { memory.release() }()
	body, err := s.read(w, r, memory)
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
		s.shed(shedMalformed, "the object is admitted unchanged", about(review, "reason", "it has more values than --max-review-memory leaves room for")...)
	case err != nil:
		s.shed(shedMalformed, "the object is admitted unchanged", "uid", review.UID, "reason", err.Error())
	}
	readable := err == nil
	admitted := stepRead.since(begin)
	answered := outcome{resp: admission.Allowed(""), status: statusError}
	if readable {
		answered = s.review(review, deadline, memory)
		memory = s.memory.reserve() // a handler that is late goes on with what it has
	}
	built := stepAdmit.since(admitted)
	body, err = encode(review.UID, &answered.resp)
	if err != nil {
		s.log.Error(err, "the object is admitted unchanged", "uid", review.UID)
		answered = outcome{resp: admission.Allowed(""), status: statusError}
		body, _ = encode(review.UID, &answered.resp) // which has nothing that could fail
	}
	writing := stepBuild.since(built)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body); err != nil {
		if suppressed, tell := s.seldom.tell("unsent"); tell {
			s.log.Info("an answer could not be sent", "uid", review.UID, "reason", err.Error(), "suppressed", suppressed)
		}
	}
	stepWrite.since(writing)
	stepTotal.since(begin)
	answered.observe(review, readable, time.Since(begin))
}

// limit is how long there is for a request: what the API server says that it waits, or what it was registered with, less
// what the way back takes.
func (s *Server) limit(r *http.Request) time.Duration {
	limit := s.timeout
	text, alone := strings.CutPrefix(r.URL.RawQuery, "timeout=") // as API servers ask
	if !alone || strings.ContainsAny(text, "&;%+") {
		text = r.URL.Query().Get("timeout")
	}
	if text != "" {
		if told, err := time.ParseDuration(text); err == nil && told > 0 {
			limit = min(limit, told)
		}
	}
	return limit - min(limit/5, time.Second)
}

// read reads the body of a request into a buffer that grows with what arrives, and reserves the memory for it. The error is
// errTooLarge, errNoMemory, or what kept it from arriving.
func (s *Server) read(w http.ResponseWriter, r *http.Request, memory *reservation) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readWait)) // without one, that of the connection holds
	var body []byte
	for {
		if len(body) == cap(body) {
			size := min(max(firstRead, 2*cap(body)), maxBody+1)
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

// refuse answers a request that was not read, so that there is no UID to answer to. The API server does as failurePolicy says.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, errTooLarge) {
		s.shed(shedMalformed, "the request is refused", "reason", fmt.Sprintf("it has more than %d bytes", maxBody))
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	s.shed(shedMemory, "the request is refused; run more replicas, or raise --max-review-memory", "reason", err.Error())
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// about is what the log says of a review, before more.
func about(review admission.Request, more ...any) []any {
	return append([]any{"uid", review.UID, "resource", review.Resource.Resource, "namespace", review.Namespace, "name", review.Name}, more...)
}

// review has a review answered by the handler, for as long as there is time, and releases its memory when the handler is done.
func (s *Server) review(req admission.Request, deadline time.Time, memory *reservation) outcome {
	// Not the request's own context: that one ends when this process is asked to stop, and what was begun is brought to its end.
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if !s.turn(ctx) {
		memory.release()
		s.shed(shedOverload, "the object is admitted unchanged, because too many reviews run at once; run more replicas, or raise --max-concurrent-reviews",
			about(req, "running", len(s.turns))...)
		return outcome{resp: admission.Allowed(""), status: statusSkipped}
	}
	done := make(chan outcome, 1)
	go func() {
		inFlight.Inc()
		defer func() { memory.release(); <-s.turns; inFlight.Dec() }() // also of a handler that came too late
		makeRoom(len(s.turns))
		done <- s.call(ctx, req)
	}()
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
	s.shed(shedDeadline, "the object is admitted unchanged, because its review takes too long", about(req)...)
	return outcome{resp: admission.Allowed(""), status: statusSkipped}
}

// makeRoom has the stack of a new goroutine grow while there is next to nothing on it. A review needs more than a goroutine begins
// with, and would else have what is on it moved several times.
//
//go:noinline
func makeRoom(any int) byte {
	var room [reviewStack]byte
	return room[any%reviewStack]
}

// reviewStack is what a review needs of it, in bytes: measured, and rather too little, as it would only grow later.
const reviewStack = 12 << 10

// turn waits until one review more may run, for a moment. Whoever has a turn gives it back.
func (s *Server) turn(ctx context.Context) bool {
	select {
	case s.turns <- struct{}{}:
		return true
	default:
	}
	wait := time.NewTimer(s.queueFor)
	defer wait.Stop()
	select {
	case s.turns <- struct{}{}:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

// call is the one place where panics end.
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
