// Package history reads the usage of past days from Prometheus once, at the start
// (--storage=prometheus; UPSTREAM.md §2.18): the CPU and the memory of containers, and the labels
// of their pods. A query or a series that fails does not affect the others.
package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// patience is how long one load waits in all for a Prometheus that never answered: 1, 2, 4, 8 and 16
// seconds.
var patience = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5}

// loadMemory is what a load may hold, in bytes: twice that of 8 days of 300,000 containers at an hour.
const loadMemory = 4 << 30

// bytesPerContainer are held of each, by estimate, besides its points.
const bytesPerContainer = 400

// Source reads history from one Prometheus.
type Source struct {
	config Config
	api    promapi.API
	limit  *rate.Limiter // of queries; nil = none
	memory int64         // that a load may hold, by estimate
	clock  clock.Clock
	log    logr.Logger
}

// New checks the configuration, the token file included; it does not speak to Prometheus. Errors name
// the flag.
func New(c Config, clk clock.Clock, log logr.Logger) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	s := &Source{config: c, api: client, clock: clk, log: log, memory: loadMemory}
	if c.QPS > 0 {
		s.limit = rate.NewLimiter(rate.Limit(c.QPS), max(1, int(c.QPS)))
	}
	return s, nil
}

// Load returns the pods that used anything in the time up to now, sorted by namespace and name. It
// returns what it could get together with an error that says, in a few lines, what it could not:
// queries that failed, series without a label, samples that are no amounts. The error is nil only
// when all went well. It reads as Pieces does, but at now and multiples of the resolution before it,
// as upstream does. A log line names series that contradict each other.
//
// Load blocks: for the duration of its queries, for half a minute in all while Prometheus does not
// answer, and for two minutes of each piece once it has; it ends early when ctx does.
//
// 8 days of hourly CPU and memory of 10,000 containers are 75 MB in the end.
func (s *Source) Load(ctx context.Context, now time.Time) ([]Pod, error) {
	l := s.load(patience)
	now = now.Truncate(time.Millisecond) // finer times do not survive the way to Prometheus
	step, length := time.Duration(s.config.Resolution), time.Duration(s.config.Length)
	from, to := now.Add(-length), now.Add(-length%step)
	found := usage{}
	l.labels(ctx, found, now) // first: without them, usage is of no use for pods that are gone
	if l.gone {
		return nil, l.faults.err()
	}
	held := int64(0)
	err := l.read(ctx, from, to, func(r model.Resource, _ promapi.Range, list []sampled) error {
		for _, one := range list {
			c := found.container(one.pod, one.container)
			if held += int64(16 * len(one.points)); c.usage[r] == nil {
				held += bytesPerContainer
			}
			if held > s.memory {
				return fmt.Errorf("history takes more than %d MiB of memory, and the rest is not read; read less, with --history-length or --history-resolution", s.memory>>20)
			}
			c.add(r, one.points)
		}
		return nil
	})
	if text := l.conflicts(ctx, from, to); text != "" {
		s.log.Error(nil, "history may be of several clusters; choose one with --prometheus-matchers", "detail", text)
	}
	l.withoutLabels(found)
	return found.pods(), errors.Join(err, l.faults.err())
}

// nothing counts a query that found no series.
func (l *load) nothing(r model.Resource, name, query string) {
	hint := "the metric's name, --prometheus-cadvisor-job-name, --container-pod-name-label and --container-name-label"
	if r == model.CPU {
		hint += "; --history-resolution must hold two scrapes"
	}
	l.faults.add(&fault{one: "query", many: "queries", text: "for " + name + " found no series (see " + hint + ")", example: query, lost: true})
}

// stream reads the samples of one series; there are none if it is of no use.
func (l *load) stream(r model.Resource, name string, stream *prommodel.SampleStream) sampled {
	values, ok := l.need(name, stream.Metric, l.config.identity()...)
	if !ok {
		return sampled{}
	}
	points := make([]point, 0, len(stream.Values))
	for _, one := range stream.Values {
		amount := float64(one.Value)
		if math.IsNaN(amount) || math.IsInf(amount, 0) || amount < 0 {
			l.faults.sample(name, "that are no amounts (not a number, infinite or below 0)",
				fmt.Sprintf("%s at %s of %s", one.Value, one.Timestamp.Time().UTC().Format(time.RFC3339), stream.Metric))
			continue
		}
		if r == model.CPU {
			amount *= 1000
		}
		points = append(points, point{at: int64(one.Timestamp), amount: facts.Amount(amount)})
	}
	return sampled{pod: model.PodID{Namespace: values[0], Name: values[1]}, container: values[2], points: points}
}

// need returns the values of labels, or counts the first one that a series lacks.
func (l *load) need(of string, metric prommodel.Metric, labels ...string) ([]string, bool) {
	values := make([]string, 0, len(labels))
	for _, label := range labels {
		value := string(metric[prommodel.LabelName(label)])
		if value == "" {
			l.faults.series(of, "without label "+label, metric)
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
