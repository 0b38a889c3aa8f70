package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// inARow is how many pieces of a metric have to fail one after another to end its reading, or how
// many queries that take too long.
const inARow = 3

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

// Watcher is notified as Pieces proceeds; any of it may be nil.
type Watcher struct {
	// Waiting is called before a piece is asked for again: after d, because of cause.
	Waiting func(d time.Duration, cause string)
	// Note takes what is odd, and no reason to stop: series without a label or that contradict each
	// other, warnings.
	Note func(text string)
}

// Pieces reads CPU and memory from one time to another, both included, and gives them to take, piece
// by piece in the order of time, CPU before memory. Times are multiples of the resolution, so that
// caches in front of Prometheus serve them. Where several series are of one container, the largest
// amount of each time counts: replicas of a Prometheus agree, and a container that restarts leaves
// the old series behind for five minutes. A note names series that do not agree.
//
// A piece has as many steps as make about 250,000 samples. One that is too large or too slow for the
// server is asked for in halves, and those after it are no larger until 16 came; one that fails,
// because the server is away, busy or ends in the middle of the answer, again, for two minutes. No
// piece is asked for twice after it came. Pieces that never come leave a gap, and three in a row end
// the reading of the metric, as three queries in a row do that take too long, and one that the server
// refuses; the error says what is missing. An answer that some stores of a Thanos failed to add to is
// waited for as well, and then taken as it is. An error of take ends all.
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

	sizes  sizes
	seen   int64 // samples of the largest step of this span
	missed int   // pieces in a row, of all metrics
}

// progress is how far the reading of one metric came.
type progress struct {
	resource    model.Resource
	name, query string

	found  bool // series
	lost   bool // a piece never came
	over   bool // no more is asked for
	missed int  // pieces in a row
	slow   int  // queries in a row
}

// read reads both metrics from one time to another, both included, and gives what comes to take. It
// gives up a metric whose queries fail. The errors that it returns are not among the faults.
func (l *load) read(ctx context.Context, from, to time.Time, take taker) error {
	p := &reading{load: l, take: take, step: time.Duration(l.config.Resolution), sizes: newSizes()}
	p.metrics = [2]progress{
		{resource: model.CPU, name: l.config.metric(model.CPU), query: l.config.cpuQuery()},
		{resource: model.Memory, name: l.config.metric(model.Memory), query: l.config.memoryQuery()},
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
	for steps := int64(1); !from.After(to) && !(p.metrics[0].over && p.metrics[1].over); steps = p.sizes.next(steps) {
		last := from.Add(time.Duration(steps-1) * p.step)
		if last.After(to) {
			last = to
		}
		p.seen = 0
		for i := range p.metrics {
			if err := p.span(ctx, &p.metrics[i], promapi.Range{Start: from, End: last, Step: p.step}); err != nil {
				return err
			}
		}
		if p.seen > 0 {
			p.sizes.samples = p.seen
		}
		from = last.Add(p.step)
	}
	return nil
}

// span reads a metric in a part of the time. The error ends the reading of all.
func (p *reading) span(ctx context.Context, m *progress, span promapi.Range) error {
	steps := p.stepsOf(span)
	switch {
	case m.over:
		return nil
	case steps > p.sizes.most:
		return p.halves(ctx, m, span)
	case p.answered:
		p.patience = piecePatience
	}
	value, err := p.ask(ctx, p.over(m.query, span), m.name)
	matrix, ok := value.(prommodel.Matrix)
	if err == nil && !ok {
		err = &failure{class: refused, text: fmt.Sprintf("the answer is %s and no matrix: %s", kindOf(value), m.query)}
	}
	of := classOf(err)
	if of == slow {
		m.slow++
	}
	switch less := of == large || of == slow && m.slow < inARow; {
	case err == nil:
		m.missed, m.slow, p.missed = 0, 0, 0
		return p.give(m, span, matrix)
	case ctx.Err() != nil:
		return err
	case less && steps > 1:
		p.sizes.failed(steps)
		return p.halves(ctx, m, span)
	case less && of == slow: // the server may have read it by now
		return p.span(ctx, m, span)
	}
	return p.miss(m, span, err)
}

// miss leaves a gap. A metric that fails does not end the other one, unless that fails, too.
func (p *reading) miss(m *progress, span promapi.Range, err error) error {
	m.lost = true
	begin := span.Start.UTC().Format(time.RFC3339)
	p.faults.query(fmt.Sprintf("%s from %s to %s", m.name, begin, span.End.UTC().Format(time.RFC3339)), err)
	m.missed++
	p.missed++
	ended := fmt.Errorf("reading %s ended at %s: the rest is not known", m.name, begin)
	both := true
	for _, one := range p.metrics {
		both = both && (one.over || one.missed > 0)
	}
	switch {
	case p.gone, both && p.missed >= inARow:
		return ended
	case m.missed >= inARow, m.slow >= inARow, classOf(err) == refused:
		m.over, p.missed = true, 0
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
	samples := make([]int64, p.stepsOf(span))
	for _, stream := range matrix {
		if stream == nil {
			continue
		}
		for _, one := range stream.Values {
			if step := int64(one.Timestamp.Time().Sub(span.Start) / p.step); step >= 0 && step < int64(len(samples)) {
				samples[step]++
			}
		}
		if one := p.stream(m.resource, m.name, stream); len(one.points) > 0 {
			out = append(out, one)
		}
	}
	p.seen = max(p.seen, slices.Max(samples))
	m.found = m.found || len(out) > 0
	p.found = p.found || m.found
	return p.take(m.resource, span, out)
}
