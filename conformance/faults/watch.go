package faults

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// watch is an open watch of a client: events go from the API server through a pipe to the client.
type watch struct {
	request Request
	format  runtime.SerializerInfo
	from    streaming.Decoder
	source  io.Closer // the answer of the API server

	mu     sync.Mutex // one event at a time
	to     streaming.Encoder
	pipe   *io.PipeWriter
	recent []metav1.WatchEvent // the last ones, without bookmarks; the oldest first
}

// remembered is how many events of each watch can be replayed.
const remembered = 100

var errCut = errors.New("watch cut by a fault")

// follow passes a watch on event by event. An answer that refuses it is left as it is.
func (p *Proxy) follow(request Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return nil
	}
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("reading the type of %s: %w", request, err)
	}
	format, found := runtime.SerializerInfoForMediaType(clientgoscheme.Codecs.SupportedMediaTypes(), media)
	if !found || format.StreamSerializer == nil {
		return fmt.Errorf("%s is answered with %s, which is not a format of watches", request, media)
	}
	reader, writer := io.Pipe()
	stream := format.StreamSerializer
	w := &watch{request: request, format: format, source: answer.Body, pipe: writer,
		from: streaming.NewDecoder(stream.Framer.NewFrameReader(answer.Body), stream.Serializer),
		to:   streaming.NewEncoder(stream.Framer.NewFrameWriter(writer), stream.Serializer)}
	answer.Body = reader
	p.mu.Lock()
	p.watches[w] = true
	p.mu.Unlock()
	go func() {
		err := w.run(p)
		p.mu.Lock()
		delete(p.watches, w)
		p.mu.Unlock()
		_ = w.pipe.CloseWithError(err)
		_ = w.source.Close()
	}()
	return nil
}

// run passes events on until one side ends the watch.
func (w *watch) run(p *Proxy) error {
	for {
		var event metav1.WatchEvent
		if _, _, err := w.from.Decode(nil, &event); err != nil {
			return err
		}
		p.waitFor(w)
		if err := w.pass(event); err != nil {
			return err
		}
	}
}

// pass sends an event and remembers it.
func (w *watch) pass(event metav1.WatchEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if event.Type != string(apiwatch.Bookmark) {
		if len(w.recent) == remembered {
			w.recent = append(w.recent[:0], w.recent[1:]...)
		}
		w.recent = append(w.recent, event)
	}
	return w.to.Encode(&event)
}

// replay sends the last n events once more, and returns how many those are.
func (w *watch) replay(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.recent[max(0, len(w.recent)-n):]
	for i := range last {
		if w.to.Encode(&last[i]) != nil {
			return i
		}
	}
	return len(last)
}

// cut drops the watch in the midst of it.
func (w *watch) cut() { _ = w.pipe.CloseWithError(errCut) }

// expire ends the watch with the event by which API servers say that they no longer have what the client wants to continue from.
func (w *watch) expire() error {
	status := apierrors.NewResourceExpired("too old resource version").Status()
	encoder := clientgoscheme.Codecs.EncoderForVersion(w.format.Serializer, metav1.Unversioned)
	raw, err := runtime.Encode(encoder, &status)
	if err != nil {
		return fmt.Errorf("encoding an error for %s: %w", w.request, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.to.Encode(&metav1.WatchEvent{Type: string(apiwatch.Error), Object: runtime.RawExtension{Raw: raw}}); err != nil {
		return nil // the client has gone meanwhile
	}
	return w.pipe.Close()
}

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
	for _, hold := range holds {
		if hold.on.selects(w.request) {
			p.count("event held")
			<-hold.over
		}
	}
}
