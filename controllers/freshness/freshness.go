// Package freshness knows whether a process may act on what it knows. While its watch of pods is closed, or has been opened again
// a moment ago, its cache still shows pods that are gone, and whoever counts them evicts too many. Once its lease is lost, another
// process acts. It finds out by the requests of the process, and holds no cache.
package freshness

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const (
	// grace is how long a watch may be closed without anybody minding: API servers end watches every few minutes, and clients
	// open them again at once.
	grace = 3 * time.Second
	// longest is how long a client waits at most before it tries a watch again: 30 s and as much again at random.
	longest = time.Minute
)

// settling is how long nobody acts after a watch was closed for longer than grace: others, such as the webhook that is to change the
// pods in place of those evicted, may not have their watches back yet. Clients wait twice as long after each failure, or up to four
// times at random, so the last wait is at most twice the time of all those before.
func settling(gap time.Duration) time.Duration { return min(2*gap, longest) }

// Watches follows the watches of a process, by resource. It is safe for concurrent use.
type Watches struct {
	Clock clock.PassiveClock

	mu sync.Mutex
	of map[string]*watched
}

// watched are the watches of one resource.
type watched struct {
	open   int       // that are up to date
	closed time.Time // when the last one ended
	opened time.Time // when the first one was up to date again
	gap    time.Duration
}

// Wrap returns a transport that follows the watches which go through it.
func (w *Watches) Wrap(next http.RoundTripper) http.RoundTripper { return transport{next, w} }

// Behind says which of the resources, by plural name, may not be known as they are, and why; empty = all are. A resource that was
// never watched counts as known: components start when their caches have synced.
func (w *Watches) Behind(resources ...string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	for _, resource := range resources {
		known := w.of[resource]
		switch {
		case known == nil:
		case known.open == 0 && now.Sub(known.closed) > grace:
			return fmt.Sprintf("%s have not been watched for %s", resource, now.Sub(known.closed).Round(time.Second))
		case known.open > 0 && known.gap > grace && now.Sub(known.opened) < settling(known.gap):
			return fmt.Sprintf("%s were not watched for %s until %s ago, and other components may still miss what changed", resource,
				known.gap.Round(time.Second), now.Sub(known.opened).Round(time.Second))
		}
	}
	return ""
}

// opens counts a watch that is up to date.
func (w *Watches) opens(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]*watched{}
	}
	known := w.of[resource]
	if known == nil {
		known = &watched{}
		w.of[resource] = known
	} else if known.open == 0 {
		known.opened = w.Clock.Now()
		known.gap = known.opened.Sub(known.closed)
	}
	known.open++
}

// closes counts a watch that was up to date and has ended.
func (w *Watches) closes(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.of[resource]
	if known.open--; known.open == 0 {
		known.closed = w.Clock.Now()
	}
}

type transport struct {
	http.RoundTripper
	watches *Watches
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	query := r.URL.Query()
	if watch := query.Get("watch"); err != nil || answer.StatusCode != http.StatusOK || watch != "true" && watch != "1" {
		return answer, err
	}
	s := &stream{ReadCloser: answer.Body, watches: t.watches, resource: path.Base(r.URL.Path)}
	if query.Get("sendInitialEvents") != "true" {
		s.caughtUp()
	}
	answer.Body = s
	return answer, nil
}

// stream is the body of a watch.
type stream struct {
	io.ReadCloser
	watches  *Watches
	resource string

	mu    sync.Mutex // Close comes from another goroutine than Read
	open  bool       // it is up to date
	ended bool
	tail  []byte // the last bytes, in case the mark comes in two parts
}

// filled is in the event after which a watch that begins with all objects is up to date, in JSON and in protobuf.
var filled = []byte(metav1.InitialEventsAnnotationKey)

// Read implements io.Reader.
func (s *stream) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	s.look(into[:n])
	if err != nil {
		s.end()
	}
	return n, err
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.end()
	return s.ReadCloser.Close()
}

// look searches for the mark until it is found.
func (s *stream) look(read []byte) {
	s.mu.Lock()
	waiting := !s.open && !s.ended
	s.mu.Unlock()
	if !waiting || len(read) == 0 {
		return
	}
	if s.tail = append(s.tail, read...); bytes.Contains(s.tail, filled) {
		s.tail = nil
		s.caughtUp()
		return
	}
	s.tail = bytes.Clone(s.tail[max(0, len(s.tail)-len(filled)):])
}

func (s *stream) caughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open && !s.ended {
		s.open = true
		s.watches.opens(s.resource)
	}
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open && !s.ended {
		s.watches.closes(s.resource)
	}
	s.ended = true
}

// Outdated is the error of a request that was not sent.
type Outdated struct{ Reason string }

func (o Outdated) Error() string { return "not sent: " + o.Reason }

// Guard returns a transport that sends nothing while outdated gives a reason, but fails with Outdated.
func Guard(next http.RoundTripper, outdated func() string) http.RoundTripper {
	return guard{next, outdated}
}

type guard struct {
	http.RoundTripper
	outdated func() string
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if reason := g.outdated(); reason != "" {
		return nil, Outdated{reason}
	}
	return g.RoundTripper.RoundTrip(r)
}
