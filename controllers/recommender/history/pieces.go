package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// Bounds of what Pieces holds at once. An answer of 250,000 samples is 7 MB of text.
const (
	pieceSamples = 250_000
	pieceBegin   = 12        // steps of the first piece
	pieceMost    = 10_000    // steps; Prometheus allows 11,000 samples of a series
	longestText  = 256 << 20 // bytes of one answer
	inARow       = 3         // pieces that fail, after which no other is asked for
)

// piecePatience is how long Pieces waits for one piece: 1, 2, 4 … 64 seconds, about two minutes.
var piecePatience = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 7}

// errLongAnswer is an answer of more than longestText.
var errLongAnswer = errors.New("the answer is longer than 256 MiB")

// Piece is the usage of one resource in a part of the time.
type Piece struct {
	Resource model.Resource
	From, To time.Time // the first and the last time that was asked for
	Usage    []Usage   // by series of the answer
}

// Usage is that of one container.
type Usage struct {
	Pod       model.PodID
	Container string
	Points    []Amount
}

// Amount is milli-cores or bytes at a time.
type Amount struct {
	At     time.Time
	Amount int64
}

// Watcher is told how Pieces goes on; any of it may be nil.
type Watcher struct {
	// Waiting is called before a piece is asked for again: after d, because of cause.
	Waiting func(d time.Duration, cause string)
	// Note takes what is odd, and no reason to stop: series without a label, warnings.
	Note func(text string)
}

// Pieces reads CPU and memory from one time to another, both included, and gives them to take, piece
// by piece in the order of time, CPU before memory. Times are multiples of the resolution, so that
// caches in front of Prometheus serve them. Where several series tell of one container, the largest
// amount of each time counts: replicas of a Prometheus agree, and a container that restarts leaves
// the old series behind for five minutes.
//
// A piece has as many steps as make about 250,000 samples. One that is too large for the server is
// asked for in halves; one that fails, because the server is away, busy or ends in the middle of the
// answer, again, for two minutes. No piece is asked for twice after it came. Pieces that never come
// leave a gap, and three in a row end the reading; the error says what is missing. An error of take
// ends the reading, too.
func (s *Source) Pieces(ctx context.Context, from, to time.Time, watch Watcher, take func(*Piece) error) error {
	p := &pieces{load: s.load(piecePatience), take: take, step: time.Duration(s.config.Resolution)}
	if watch.Waiting != nil {
		p.waiting = watch.Waiting
	}
	from, to = from.Truncate(p.step), to.Truncate(p.step)
	if from.Before(to.Add(-maxPoints * p.step)) {
		return fmt.Errorf("%s to %s at --history-resolution=%s are more than %d samples of every container: raise it, or lower --history-length",
			from.Format(time.RFC3339), to.Format(time.RFC3339), s.config.Resolution, maxPoints)
	}
	err := p.all(context.WithValue(ctx, ofPieces{}, true), from, to)
	for _, m := range p.metrics() {
		if !p.found[m.resource] && !p.lost && err == nil {
			p.nothing(m.resource, m.name, m.query)
		}
	}
	if watch.Note != nil {
		for _, text := range p.faults.odd() {
			watch.Note(text)
		}
	}
	return errors.Join(err, p.faults.failed())
}

// pieces is one run of Pieces.
type pieces struct {
	*load
	take func(*Piece) error
	step time.Duration

	found  [2]bool // series, by resource
	most   int     // samples of the last span, of the resource that has more
	failed int     // pieces in a row
	lost   bool    // a piece never came
}

// wanted is one of the two metrics.
type wanted struct {
	resource    model.Resource
	name, query string
}

func (s *Source) metrics() []wanted {
	c := &s.config
	by := func(query string) string {
		var labels []string
		for _, label := range []string{c.ContainerNamespaceLabel, c.ContainerPodLabel, c.ContainerNameLabel} {
			labels = append(labels, labelText(label))
		}
		return "max by (" + strings.Join(labels, ", ") + ") (" + query + ")"
	}
	return []wanted{
		{model.CPU, c.CPUMetric, by(c.cpuQuery())},
		{model.Memory, c.MemoryMetric, by(c.memoryQuery())},
	}
}

// all reads span after span. Spans grow and shrink with what the last one held.
func (p *pieces) all(ctx context.Context, from, to time.Time) error {
	for steps := int64(pieceBegin); !from.After(to); {
		last := from.Add(time.Duration(steps-1) * p.step)
		if last.After(to) {
			last = to
		}
		p.most = 0
		for _, m := range p.metrics() {
			if err := p.span(ctx, m, promapi.Range{Start: from, End: last, Step: p.step}); err != nil {
				return err
			}
		}
		grown := 4 * steps
		if p.most > 0 {
			grown = min(grown, steps*pieceSamples/int64(p.most))
		}
		steps = min(max(grown, 1), pieceMost)
		from = last.Add(p.step)
	}
	return nil
}

// span reads a metric in a part of the time. The error ends the reading.
func (p *pieces) span(ctx context.Context, m wanted, span promapi.Range) error {
	p.patience = piecePatience
	value, err := p.ask(ctx, func(ctx context.Context) (prommodel.Value, promapi.Warnings, error) {
		value, warnings, _, err := p.api.QueryRange(ctx, m.query, span)
		return value, warnings, err
	}, m.name)
	matrix, ok := value.(prommodel.Matrix)
	if err == nil && !ok {
		err = fmt.Errorf("the answer to %s is %s and no matrix", m.query, kindOf(value))
	}
	switch {
	case err == nil:
		p.failed = 0
		return p.give(m, span, matrix)
	case ctx.Err() != nil:
		return err
	case tooMuch(err) && span.Start.Before(span.End):
		return p.halves(ctx, m, span)
	}
	p.lost = true
	p.faults.query(fmt.Sprintf("%s from %s to %s", m.name, span.Start.UTC().Format(time.RFC3339), span.End.UTC().Format(time.RFC3339)), err)
	if p.failed++; p.failed >= inARow || p.gone || hopeless(err) {
		return fmt.Errorf("reading %s ended at %s: the rest is not known", m.name, span.Start.UTC().Format(time.RFC3339))
	}
	return nil
}

func (p *pieces) halves(ctx context.Context, m wanted, span promapi.Range) error {
	steps := int64(span.End.Sub(span.Start)/p.step) + 1
	middle := span.Start.Add(time.Duration(steps/2) * p.step)
	if err := p.span(ctx, m, promapi.Range{Start: span.Start, End: middle.Add(-p.step), Step: p.step}); err != nil {
		return err
	}
	return p.span(ctx, m, promapi.Range{Start: middle, End: span.End, Step: p.step})
}

// give hands over what came.
func (p *pieces) give(m wanted, span promapi.Range, matrix prommodel.Matrix) error {
	out := &Piece{Resource: m.resource, From: span.Start, To: span.End}
	samples := 0
	for _, stream := range matrix {
		if stream == nil {
			continue
		}
		pod, container, points := p.stream(m.resource, m.name, stream)
		if len(points) == 0 {
			continue
		}
		one := Usage{Pod: pod, Container: container, Points: make([]Amount, 0, len(points))}
		for _, at := range points {
			one.Points = append(one.Points, Amount{At: time.UnixMilli(at.at).UTC(), Amount: at.amount})
		}
		samples += len(points)
		out.Usage = append(out.Usage, one)
	}
	p.most = max(p.most, samples)
	p.found[m.resource] = p.found[m.resource] || len(out.Usage) > 0
	return p.take(out)
}

// tooMuch: half of the time may succeed.
func tooMuch(err error) bool {
	kind, text := reason(err)
	switch kind {
	case promapi.ErrTimeout, promapi.ErrCanceled, promapi.ErrExec:
		return true
	case promapi.ErrBadData, promapi.ErrClient: // Prometheus, Thanos and Mimir have a limit each, under these types
		return strings.Contains(text, "exceed") || strings.Contains(text, "too many") || strings.Contains(text, "limit")
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errLongAnswer)
}

// bounded ends answers that are too long to be held, to requests of Pieces.
type bounded struct{ next http.RoundTripper }

// ofPieces marks the context of these requests.
type ofPieces struct{}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil && r.Context().Value(ofPieces{}) != nil {
		answer.Body = &boundedBody{ReadCloser: answer.Body, left: longestText}
	}
	return answer, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongAnswer
	}
	n, err := b.ReadCloser.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	return n, err
}
