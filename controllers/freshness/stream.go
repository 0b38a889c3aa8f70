package freshness

import (
	"bytes"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
