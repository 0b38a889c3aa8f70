// Package history reads the usage of past days from Prometheus once, at the start
// (--storage=prometheus; UPSTREAM.md §2.18): the CPU and the memory of containers, and the labels
// of their pods. A query or a series that fails does not affect the others. What a recommender makes
// of it does not belong here.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// maxPoints bounds what a load holds, in 16 bytes each: twice as much as 8 days of 300,000 containers
// at an hour have.
const maxPoints = 1 << 28

// Source reads history from one Prometheus.
type Source struct {
	config    Config
	client    *client
	limit     *rate.Limiter // of queries; nil = none
	maxPoints int
	clock     clock.Clock
	log       logr.Logger
}

// New checks the configuration, the token file included; it does not speak to Prometheus. Errors name
// the flag.
func New(c Config, clk clock.Clock, log logr.Logger) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Source{config: c, maxPoints: maxPoints, clock: clk, log: log}
	var err error
	if s.client, err = s.config.client(); err != nil {
		return nil, err
	}
	if c.QPS > 0 {
		s.limit = rate.NewLimiter(rate.Limit(c.QPS), max(1, int(c.QPS)))
	}
	return s, nil
}

// Pod is what Prometheus remembers of a pod, which may be gone.
type Pod struct {
	ID model.PodID
	// Labels are those of the newest series that carries them; nil when none is known. Prometheus
	// keeps no label without a value.
	Labels map[string]string

	containers map[string]*[2][]Point // by name, then model.Resource
	labelsEnd  int64                  // unix milliseconds of that series
	labelsFrom string                 // that series
}

// Samples returns the pod's usage by time; of the same time by container, CPU before memory, and
// the larger amount first where two series are of one container. Times are UTC. The slice is made
// at each call: those of all pods together take five times the memory of the pods.
func (p *Pod) Samples() []model.Sample {
	var out []model.Sample
	for name, usage := range p.containers {
		for r, points := range usage {
			for _, point := range points {
				out = append(out, model.Sample{Pod: p.ID, Container: name, Resource: model.Resource(r), Amount: point.Amount, At: time.UnixMilli(point.At).UTC()})
			}
		}
	}
	slices.SortFunc(out, func(a, b model.Sample) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Container, b.Container), cmp.Compare(a.Resource, b.Resource), cmp.Compare(b.Amount, a.Amount))
	})
	return out
}

// pods are those of one load.
type pods map[model.PodID]*Pod

func (p pods) of(id model.PodID) *Pod {
	if p[id] == nil {
		p[id] = &Pod{ID: id, containers: map[string]*[2][]Point{}}
	}
	return p[id]
}

// add adds usage, and returns how many points it has.
func (p pods) add(piece *Piece) (points int) {
	for _, u := range piece.Usage {
		pod := p.of(u.Pod)
		usage := pod.containers[u.Container]
		if usage == nil {
			usage = &[2][]Point{}
			pod.containers[u.Container] = usage
		}
		usage[piece.Resource] = append(usage[piece.Resource], u.Points...)
		points += len(u.Points)
	}
	return points
}

// used are the pods with usage, sorted by namespace and name.
func (p pods) used() (out []Pod) {
	for _, pod := range p {
		if len(pod.containers) > 0 {
			out = append(out, *pod)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int {
		return cmp.Or(strings.Compare(a.ID.Namespace, b.ID.Namespace), strings.Compare(a.ID.Name, b.ID.Name))
	})
	return out
}

// Load returns the pods that used anything in the time up to now, sorted by namespace and name. It
// returns what it could get together with an error that says, in a few lines, what it could not:
// queries that failed, series without a label, samples that are not amounts. The error is nil only
// when all went well. It reads as Pieces does, but at now and multiples of the resolution before it,
// as upstream does. A log line names series that contradict each other.
//
// Load blocks: for the duration of its queries, for half a minute in all while Prometheus does not
// answer, and for two minutes of each piece once it has; it ends early when ctx does.
func (s *Source) Load(ctx context.Context, now time.Time) ([]Pod, error) {
	l := s.load()
	now = now.Truncate(time.Millisecond) // finer times do not survive the way to Prometheus
	step, length := time.Duration(s.config.Resolution), time.Duration(s.config.Length)
	from, to := now.Add(-length), now.Add(-length%step)
	found := pods{}
	complete, err := l.labels(ctx, found, now) // first: without them, usage is of no use for pods that are gone
	if err != nil {
		return nil, errors.Join(err, l.lost.err())
	}
	points := 0
	err = l.usage(ctx, from, to, func(piece *Piece) error {
		if points += found.add(piece); points > s.maxPoints {
			return fmt.Errorf("history has more than %d samples, and the rest is not read; read less, with --history-length or --history-resolution", s.maxPoints)
		}
		return nil
	})
	if text := l.conflicts(ctx, from, to); text != "" {
		s.log.Error(nil, "history may be of several clusters; choose one with --prometheus-matchers", "detail", text)
	}
	used := found.used()
	for _, pod := range used {
		if pod.Labels == nil && complete && !l.ended {
			l.notes.add("pods with usage but without labels in "+s.config.PodLabelsQuery+
				" (see --metric-for-pod-labels, whose range, such as kube_pod_labels[8d], covers pods that are gone)", pod.ID.Namespace+"/"+pod.ID.Name, nil)
		}
	}
	return used, errors.Join(err, l.lost.err(), l.notes.err())
}

// Piece is the usage of one resource in a part of the time.
type Piece struct {
	Resource model.Resource
	To       time.Time // the last time that was asked for
	Usage    []Usage   // by series of the answer
}

// Usage is the usage of one container of a pod.
type Usage struct {
	Pod       model.PodID
	Container string
	Points    []Point
}

// Point is an amount at a time.
type Point struct {
	At     int64 // unix milliseconds
	Amount int64 // milli-cores or bytes
}

// Watcher is notified as Pieces proceeds; any of it may be nil.
type Watcher struct {
	// Waiting is called before a piece is asked for again: after d, because of cause.
	Waiting func(d time.Duration, cause string)
	// Note takes what is no reason to stop: series without a label or that contradict each other,
	// warnings.
	Note func(text string)
}

// Pieces reads usage from one time to another, both included, and gives it to take, piece by piece:
// first CPU, then memory, each in the order of time. Times are multiples of the resolution, so that
// caches in front of Prometheus serve them. Where several series are of one container, the largest
// amount of each time counts: replicas of a Prometheus agree, and a container that restarts leaves
// the old series behind for five minutes. A note names series that do not agree.
//
// The error says what is missing, or is that of take, which ends all. docs/recommender.md says what
// follows from failures.
func (s *Source) Pieces(ctx context.Context, from, to time.Time, watch Watcher, take func(*Piece) error) error {
	l := s.load()
	if watch.Waiting != nil {
		l.waiting = watch.Waiting
	}
	step := time.Duration(s.config.Resolution)
	from, to = from.Truncate(step), to.Truncate(step)
	err := l.usage(ctx, from, to, take)
	if watch.Note != nil {
		if text := l.conflicts(ctx, from, to); text != "" {
			watch.Note(text)
		}
		for _, note := range l.notes {
			watch.Note(note.Error())
		}
	}
	return errors.Join(err, l.lost.err())
}

// usage reads the usage of CPU, and then of memory.
func (l *load) usage(ctx context.Context, from, to time.Time, take func(*Piece) error) error {
	for r, metric := range []struct{ name, query, hint string }{
		{l.config.CPUMetric, l.config.cpuQuery(), "; --history-resolution must hold two scrapes"},
		{l.config.MemoryMetric, l.config.memoryQuery(), ""},
	} {
		found := false
		reading := &reading{
			load: l, name: metric.name, from: from, to: to, step: time.Duration(l.config.Resolution), faults: &l.lost,
			query: func(from, to time.Time) query {
				return query{metric.query, promapi.Range{Start: from, End: to, Step: time.Duration(l.config.Resolution)}}
			},
			take: func(value prommodel.Value, _, to time.Time) error {
				matrix, ok := value.(prommodel.Matrix)
				if !ok {
					return &failure{text: fmt.Sprintf("the answer is %s, not a matrix: %s", kindOf(value), metric.query)}
				}
				piece := &Piece{Resource: model.Resource(r), To: to}
				for _, stream := range matrix {
					if u := l.series(piece.Resource, metric.name, stream); len(u.Points) > 0 {
						piece.Usage = append(piece.Usage, u)
					}
				}
				found = found || len(piece.Usage) > 0
				l.found = l.found || found
				return take(piece)
			},
		}
		if err := reading.run(ctx); err != nil {
			return err
		}
		if !found && !reading.gaps && !l.ended {
			l.lost.add("queries for "+metric.name+" that found no series (see the metric's name, --prometheus-cadvisor-job-name, "+
				"--container-pod-name-label and --container-name-label"+metric.hint+")", metric.query, nil)
		}
	}
	return nil
}

// series is the usage in one series; without points if it is of no use.
func (l *load) series(r model.Resource, name string, stream *prommodel.SampleStream) (out Usage) {
	if stream == nil {
		return out
	}
	values, ok := l.need(name, stream.Metric, l.config.identity()...)
	if !ok {
		return out
	}
	out = Usage{Pod: model.PodID{Namespace: values[0], Name: values[1]}, Container: values[2], Points: make([]Point, 0, len(stream.Values))}
	for _, v := range stream.Values {
		amount := float64(v.Value)
		if math.IsNaN(amount) || math.IsInf(amount, 0) || amount < 0 {
			l.notes.add("samples of "+name+" that are not amounts (not a number, infinite or below 0)",
				fmt.Sprintf("%s at %s of %s", v.Value, v.Timestamp.Time().UTC().Format(time.RFC3339), stream.Metric), nil)
			continue
		}
		if r == model.CPU {
			amount *= 1000
		}
		out.Points = append(out.Points, Point{At: int64(v.Timestamp), Amount: facts.Amount(amount)})
	}
	return out
}

// need returns the values of labels, or counts the series that lacks one.
func (l *load) need(name string, metric prommodel.Metric, labels ...string) ([]string, bool) {
	var values []string
	for _, label := range labels {
		value := string(metric[prommodel.LabelName(label)])
		if value == "" {
			l.notes.add("series without label "+label+" in answers about "+name, metric.String(), nil)
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}

// kindOf names the type of an answer.
func kindOf(value prommodel.Value) string {
	if value == nil {
		return "nothing"
	}
	return "a " + value.Type().String()
}
