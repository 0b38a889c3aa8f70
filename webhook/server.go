package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// maxBody is the largest review that is read (UPSTREAM.md §4.1).
	maxBody = 5 << 20
	// keptBuffer is the largest buffer that is used again: one huge object must not cost memory for ever.
	keptBuffer = 1 << 20
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
	log      logr.Logger
	seldom   *seldom
}

// ServerOptions are what a Server needs.
type ServerOptions struct {
	// Handler answers one review. It may be called from many goroutines, is called once a review, and may panic. The patch is its
	// Patch, where it has written that itself, or its Patches.
	Handler admission.Handler
	// Timeout is how long API servers wait; one that says in its request that it waits shorter is believed. It must be greater
	// than 0. The handler's context ends a margin before that, and the answer does not wait for a handler that goes on.
	Timeout time.Duration
	// Concurrent is how many reviews run at once, at most; 0 = 100 for each CPU. A review that does not get its turn in
	// 100ms is allowed without a patch.
	Concurrent int
	Clock      clock.PassiveClock // of the log only
	Log        logr.Logger
}

// NewServer prepares a server.
func NewServer(o ServerOptions) *Server {
	if o.Concurrent <= 0 {
		o.Concurrent = 100 * runtime.GOMAXPROCS(0)
	}
	return &Server{handler: o.Handler, timeout: o.Timeout, turns: make(chan struct{}, o.Concurrent), queueFor: queueWait, log: o.Log,
		seldom: &seldom{clock: o.Clock, every: 10 * time.Second}}
}

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		s.shed(shedMalformed, nil, "the request is left without an answer", "reason", fmt.Sprintf("its Content-Type is %q, not application/json", got))
		return
	}
	deadline := begin.Add(s.limit(r))
	review, err := s.read(r)
	if errors.Is(err, errTooLarge) {
		s.shed(shedMalformed, nil, "the request is refused", "reason", fmt.Sprintf("it has more than %d bytes", maxBody))
		http.Error(w, errTooLarge.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		s.shed(shedMalformed, nil, "the object is admitted unchanged", "uid", review.UID, "reason", err.Error())
	}
	readable := err == nil
	admitted := stepRead.since(begin)
	answered := outcome{resp: admission.Allowed(""), status: statusError}
	if readable {
		answered = s.review(review, deadline)
	}
	built := stepAdmit.since(admitted)
	body, err := encode(review.UID, &answered.resp)
	if err != nil {
		s.log.Error(err, "the object is admitted unchanged", "uid", review.UID)
		answered = outcome{resp: admission.Allowed(""), status: statusError}
		body, _ = encode(review.UID, &answered.resp) // which has nothing that could fail
	}
	writing := stepBuild.since(built)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body); err != nil {
		if silent, tell := s.seldom.tell("unsent"); tell {
			s.log.Info("an answer could not be sent", "uid", review.UID, "reason", err.Error(), "untold", silent)
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

var errTooLarge = errors.New("request payload too large")

// read reads a review. With an error it is what could be read of it.
func (s *Server) read(r *http.Request) (admission.Request, error) {
	if r.ContentLength > maxBody {
		return admission.Request{}, errTooLarge
	}
	body := bodies.Get().(*bytes.Buffer)
	defer func() {
		if body.Cap() <= keptBuffer {
			body.Reset()
			bodies.Put(body)
		}
	}()
	if r.ContentLength > 0 {
		body.Grow(int(r.ContentLength) + bytes.MinRead) // at once, with what ReadFrom wants to have left
	}
	switch n, err := body.ReadFrom(io.LimitReader(r.Body, maxBody+1)); {
	case n > maxBody:
		return admission.Request{}, errTooLarge
	case err != nil:
		return admission.Request{}, fmt.Errorf("reading the request: %w", err)
	}
	return decode(body.Bytes())
}

// review has a review answered by the handler, for as long as there is time.
func (s *Server) review(req admission.Request, deadline time.Time) outcome {
	// Not the request's own context: that one ends when this process is asked to stop, and what was begun is brought to its end.
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if !s.turn(ctx) {
		s.shed(shedOverload, s.seldom, "the object is admitted unchanged, because too many reviews run at once; run more replicas, or raise --max-concurrent-reviews",
			"uid", req.UID, "resource", req.Resource.Resource, "namespace", req.Namespace, "name", req.Name, "running", len(s.turns))
		return outcome{resp: admission.Allowed(""), status: statusSkipped}
	}
	done := make(chan outcome, 1)
	go func() {
		inFlight.Inc()
		defer func() { <-s.turns; inFlight.Dec() }() // also of a handler that came too late
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
	s.shed(shedDeadline, s.seldom, "the object is admitted unchanged, because its review takes too long", "uid", req.UID,
		"resource", req.Resource.Resource, "namespace", req.Namespace, "name", req.Name)
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
			s.shed(shedPanic, nil, "the object is admitted unchanged; please report this", "uid", req.UID, "resource", req.Resource.Resource,
				"namespace", req.Namespace, "name", req.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			answered = outcome{resp: admission.Allowed(""), status: statusSkipped}
		}
	}()
	answered.resp = s.handler.Handle(ctx, req)
	switch {
	case !answered.resp.Allowed:
		answered.status = statusError
	case len(answered.resp.Patches) > 0, len(answered.resp.Patch) > 0:
		answered.status = statusApplied
	default:
		answered.status = statusSkipped
	}
	return answered
}

// shed counts a review that the handler had no part in, and logs it: each one, or seldom.
func (s *Server) shed(reason string, seldom *seldom, text string, values ...any) {
	shedTotal.WithLabelValues(reason).Inc()
	if seldom != nil {
		silent, tell := seldom.tell(reason)
		if !tell {
			return
		}
		values = append(values, "untold", silent)
	}
	s.log.Error(nil, text, values...)
}

// seldom lets a line of the log through every so often, so that what goes wrong a thousand times a second does not fill a disk.
type seldom struct {
	clock clock.PassiveClock
	every time.Duration

	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	told   time.Time
	silent int
}

// tell reports whether it is time to tell of something again, and how often it was not told since.
func (s *seldom) tell(what string) (silent int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.lines == nil {
		s.lines = map[string]*line{}
	}
	l := s.lines[what]
	if l != nil && now.Before(l.told.Add(s.every)) {
		l.silent++
		return 0, false
	}
	if l != nil {
		silent = l.silent
	}
	s.lines[what] = &line{told: now}
	return silent, true
}
