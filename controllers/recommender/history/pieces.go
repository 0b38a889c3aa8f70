package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// Bounds of what one answer holds. 250,000 samples are 7 MB of text.
const (
	pieceSamples = 250_000
	pieceMost    = 10_000 // steps; Prometheus allows 11,000 samples of a series
	inARow       = 3      // queries that fail, after which no other is asked
)

// piecePatience is how long one piece is waited for: 1, 2, 4 … 64 seconds, about two minutes.
var piecePatience = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 7}

// Piece is the usage of one resource in a part of the time.
type Piece struct {
	Resource model.Resource
	From, To time.Time // the first and the last time that was asked for
	Usage    []Usage   // by series of the answer
}

// Usage is the usage of one container of a pod.
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
	// Note takes what is odd, and no reason to stop: series without a label or that contradict each
	// other, warnings.
	Note func(text string)
}

// Pieces reads CPU and memory from one time to another, both included, and gives them to take, piece
// by piece in the order of time, CPU before memory. Times are multiples of the resolution, so that
// caches in front of Prometheus serve them. Where several series tell of one container, the largest
// amount of each time counts: replicas of a Prometheus agree, and a container that restarts leaves
// the old series behind for five minutes. A note names series that do not agree.
//
// A piece has as many steps as make about 250,000 samples. One that is too large for the server is
// asked for in halves, and those after it are no larger; one that fails, because the server is away,
// busy or ends in the middle of the answer, again, for two minutes. No piece is asked for twice after
// it came. Pieces that never come leave a gap, and three in a row end the reading of the metric; the
// error says what is missing. An error of take ends all.
func (s *Source) Pieces(ctx context.Context, from, to time.Time, watch Watcher, take func(*Piece) error) error {
	l := s.load(piecePatience)
	if watch.Waiting != nil {
		l.waiting = watch.Waiting
	}
	step := time.Duration(s.config.Resolution)
	from, to = from.Truncate(step), to.Truncate(step)
	if from.Before(to.Add(-maxPoints * step)) {
		return fmt.Errorf("%s to %s at --history-resolution=%s are more than %d samples of every container: raise it, or lower --history-length",
			from.Format(time.RFC3339), to.Format(time.RFC3339), s.config.Resolution, maxPoints)
	}
	err := l.read(ctx, from, to, func(r model.Resource, span promapi.Range, list []sampled) error {
		out := &Piece{Resource: r, From: span.Start, To: span.End, Usage: make([]Usage, 0, len(list))}
		for _, one := range list {
			u := Usage{Pod: one.pod, Container: one.container, Points: make([]Amount, 0, len(one.points))}
			for _, at := range one.points {
				u.Points = append(u.Points, Amount{At: time.UnixMilli(at.at).UTC(), Amount: at.amount})
			}
			out.Usage = append(out.Usage, u)
		}
		return take(out)
	})
	if watch.Note != nil {
		if text := l.conflicts(ctx, from, to); text != "" {
			watch.Note(text)
		}
		for _, text := range l.faults.odd() {
			watch.Note(text)
		}
	}
	return errors.Join(err, l.faults.failed())
}

// sampled is usage of one container, in a part of the time.
type sampled struct {
	pod       model.PodID
	container string
	points    []point
}

// taker takes what an answer holds.
type taker func(r model.Resource, span promapi.Range, list []sampled) error

// reading is one run of read.
type reading struct {
	*load
	take    taker
	step    time.Duration
	metrics [2]progress
	ended   []error // why a metric ended early

	most   int   // samples of the last span, of the resource that has more
	steps  int64 // of the largest span
	failed int   // pieces in a row, of all metrics
}

// progress is how far the reading of one metric came.
type progress struct {
	resource    model.Resource
	name, query string

	found  bool // series
	lost   bool // a piece never came
	over   bool // no more is asked for
	failed int  // queries in a row
}

// read reads both metrics from one time to another, both included, and gives what comes to take. It
// gives up a metric whose queries fail. The errors that it returns are not among the faults.
func (l *load) read(ctx context.Context, from, to time.Time, take taker) error {
	p := &reading{load: l, take: take, step: time.Duration(l.config.Resolution), steps: pieceMost}
	p.metrics = [2]progress{
		{resource: model.CPU, name: l.config.CPUMetric, query: l.config.cpuQuery()},
		{resource: model.Memory, name: l.config.MemoryMetric, query: l.config.memoryQuery()},
	}
	err := p.all(ctx, from, to)
	for _, m := range p.metrics {
		if !m.found && !m.lost && err == nil {
			p.nothing(m.resource, m.name, m.query)
		}
	}
	return errors.Join(append(p.ended, err)...)
}

// all reads span after span. Spans grow and shrink with what the last one held. The first is of one
// time, which is little of the largest cluster, too.
func (p *reading) all(ctx context.Context, from, to time.Time) error {
	for steps := int64(1); !from.After(to) && !(p.metrics[0].over && p.metrics[1].over); {
		last := from.Add(time.Duration(steps-1) * p.step)
		if last.After(to) {
			last = to
		}
		p.most = 0
		for i := range p.metrics {
			if err := p.span(ctx, &p.metrics[i], promapi.Range{Start: from, End: last, Step: p.step}); err != nil {
				return err
			}
		}
		grown := 4 * steps
		if p.most > 0 {
			grown = min(grown, steps*pieceSamples/int64(p.most))
		}
		steps = min(max(grown, 1), p.steps)
		from = last.Add(p.step)
	}
	return nil
}

// span reads a metric in a part of the time. The error ends the reading of all.
func (p *reading) span(ctx context.Context, m *progress, span promapi.Range) error {
	if m.over {
		return nil
	}
	if p.stepsOf(span) > p.steps {
		return p.halves(ctx, m, span)
	}
	if p.answered {
		p.patience = piecePatience
	}
	value, err := p.ask(ctx, p.over(m.query, span), m.name)
	matrix, ok := value.(prommodel.Matrix)
	if err == nil && !ok {
		err = &failure{class: refused, text: fmt.Sprintf("the answer to %s is %s and no matrix", m.query, kindOf(value))}
	}
	if err == nil {
		m.failed, p.failed = 0, 0
		return p.give(m, span, matrix)
	}
	if ctx.Err() != nil {
		return err
	}
	of := classOf(err)
	if of == slow {
		m.failed++
	}
	if steps := p.stepsOf(span); (of == large || of == slow) && steps > 1 && m.failed < inARow {
		p.steps = steps / 2
		return p.halves(ctx, m, span)
	}
	return p.miss(m, span, err)
}

// miss leaves a gap.
func (p *reading) miss(m *progress, span promapi.Range, err error) error {
	m.lost = true
	begin := span.Start.UTC().Format(time.RFC3339)
	p.faults.query(fmt.Sprintf("%s from %s to %s", m.name, begin, span.End.UTC().Format(time.RFC3339)), err)
	m.failed++
	p.failed++
	ended := fmt.Errorf("reading %s ended at %s: the rest is not known", m.name, begin)
	if p.gone || p.failed >= inARow {
		return ended
	}
	if of := classOf(err); m.failed >= inARow || of == refused || of == slow {
		m.over = true
		p.ended = append(p.ended, ended)
	}
	return nil
}

func (p *reading) stepsOf(span promapi.Range) int64 {
	return int64(span.End.Sub(span.Start)/p.step) + 1
}

func (p *reading) halves(ctx context.Context, m *progress, span promapi.Range) error {
	middle := span.Start.Add(time.Duration(p.stepsOf(span)/2) * p.step)
	if err := p.span(ctx, m, promapi.Range{Start: span.Start, End: middle.Add(-p.step), Step: p.step}); err != nil {
		return err
	}
	return p.span(ctx, m, promapi.Range{Start: middle, End: span.End, Step: p.step})
}

// give hands over what came.
func (p *reading) give(m *progress, span promapi.Range, matrix prommodel.Matrix) error {
	out := make([]sampled, 0, len(matrix))
	samples := 0
	for _, stream := range matrix {
		if stream == nil {
			continue
		}
		if one := p.stream(m.resource, m.name, stream); len(one.points) > 0 {
			samples += len(one.points)
			out = append(out, one)
		}
	}
	p.most = max(p.most, samples)
	m.found = m.found || len(out) > 0
	p.found = p.found || m.found
	return p.take(m.resource, span, out)
}
