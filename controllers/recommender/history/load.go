package history

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// patience is how long one load waits in all for a Prometheus that does not answer yet: 1, 2, 4, 8
// and 16 seconds.
var patience = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5}

// Source reads history from one Prometheus.
type Source struct {
	config Config
	api    promapi.API
	clock  clock.Clock
	log    logr.Logger
}

// New checks the configuration and reads the token file; it does not speak to Prometheus. Errors
// name the flag.
func New(c Config, clk clock.Clock, log logr.Logger) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return &Source{config: c, api: client, clock: clk, log: log}, nil
}

// Load returns the pods that used anything in the time up to now, sorted by namespace and name. It
// returns what it could get together with an error that tells, in a few lines, what it could not:
// queries that failed, series without a label, samples that are no amounts. The error is nil only
// when all went well. Load blocks: for the duration of its queries, and for half a minute in all
// while Prometheus does not answer; it ends early when ctx does.
//
// A day or so is asked for at a time, because an answer is text that is held as a whole. 8 days of
// hourly CPU and memory of 10,000 containers are 75 MB in the end and less than 200 MB on the way;
// in one piece they would be 480 MB.
func (s *Source) Load(ctx context.Context, now time.Time) ([]Pod, error) {
	l := s.load(patience)
	now = now.Truncate(time.Millisecond) // finer times do not survive the way to Prometheus
	l.metric(ctx, model.CPU, s.config.CPUMetric, s.config.cpuQuery(), now)
	l.metric(ctx, model.Memory, s.config.MemoryMetric, s.config.memoryQuery(), now)
	l.labels(ctx, now)
	return l.usage.pods(), l.faults.err()
}

// load is one run of Load, or of Pieces.
type load struct {
	*Source
	usage    usage
	faults   faults
	patience wait.Backoff
	gone     bool                                // Prometheus cannot be reached, or the context has ended: ask no more
	waiting  func(d time.Duration, cause string) // before a query is sent again
}

func (s *Source) load(patience wait.Backoff) *load {
	l := &load{Source: s, usage: usage{}, faults: faults{address: s.config.addressFlag()}, patience: patience}
	l.waiting = func(d time.Duration, cause string) {
		l.log.Info("Prometheus is not ready; retrying history", "in", d.String(), "error", cause)
	}
	return l
}

// metric loads one resource.
func (l *load) metric(ctx context.Context, r model.Resource, name, query string, now time.Time) {
	if l.gone {
		return
	}
	step := time.Duration(l.config.Resolution)
	series, failed := 0, false
	for _, span := range spans(now, time.Duration(l.config.Length), step) {
		value, err := l.ask(ctx, func(ctx context.Context) (prommodel.Value, promapi.Warnings, error) {
			value, warnings, _, err := l.api.QueryRange(ctx, query, span)
			return value, warnings, err
		}, name)
		if err != nil {
			failed = true
			l.faults.query(name, err)
			if l.gone || hopeless(err) {
				return
			}
			continue
		}
		matrix, ok := value.(prommodel.Matrix)
		if !ok {
			failed = true
			l.faults.query(name, fmt.Errorf("the answer to %s is %s and no matrix", query, kindOf(value)))
			return
		}
		series += len(matrix)
		for _, stream := range matrix {
			if stream == nil {
				continue
			}
			if pod, container, points := l.stream(r, name, stream); len(points) > 0 {
				c := l.usage.container(pod, container)
				c.usage[r] = append(c.usage[r], points)
			}
		}
	}
	if series == 0 && !failed {
		l.nothing(r, name, query)
	}
}

// nothing counts a query that found no series.
func (l *load) nothing(r model.Resource, name, query string) {
	hint := "the metric's name, --prometheus-cadvisor-job-name, --container-pod-name-label and --container-name-label"
	if r == model.CPU {
		hint += "; --history-resolution must hold two scrapes"
	}
	l.faults.add(&fault{one: "query", many: "queries", text: "for " + name + " found no series (see " + hint + ")", example: query})
}

// spans divides the time up to now into ranges of about a day that share no sample. Prometheus
// allows 11,000 samples of a series in one answer.
func spans(now time.Time, length, step time.Duration) []promapi.Range {
	last := int64(length / step) // the last sample, counted from 0
	size := min(max(int64(24*time.Hour/step), 24), 10_000)
	begin := now.Add(-length)
	var out []promapi.Range
	for from := int64(0); from <= last; from += size {
		to := min(from+size-1, last)
		out = append(out, promapi.Range{Start: begin.Add(time.Duration(from) * step), End: begin.Add(time.Duration(to) * step), Step: step})
	}
	return out
}

// stream reads the samples of one series; there are none if it is of no use.
func (l *load) stream(r model.Resource, name string, stream *prommodel.SampleStream) (of model.PodID, container string, points []point) {
	values, ok := l.need(name, stream.Metric, l.config.ContainerNamespaceLabel, l.config.ContainerPodLabel, l.config.ContainerNameLabel)
	if !ok {
		return of, "", nil
	}
	if len(stream.Histograms) > 0 {
		l.faults.series(name, "with histograms instead of numbers", stream.Metric)
	}
	points = make([]point, 0, len(stream.Values))
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
	return model.PodID{Namespace: values[0], Name: values[1]}, values[2], points
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

// labels loads the labels of the pods that have samples. Unlike upstream, it also reads an instant
// vector, which its default query returns (UPSTREAM.md §2.18, hazard 24).
func (l *load) labels(ctx context.Context, now time.Time) {
	if l.gone || len(l.usage) == 0 {
		return
	}
	query := l.config.PodLabelsQuery
	value, err := l.ask(ctx, func(ctx context.Context) (prommodel.Value, promapi.Warnings, error) {
		value, warnings, _, err := l.api.Query(ctx, query, now)
		return value, warnings, err
	}, query)
	if err != nil {
		l.faults.query(query, err)
		return
	}
	switch value := value.(type) {
	case prommodel.Matrix:
		for _, stream := range value {
			if stream != nil {
				l.podLabels(stream.Metric, end(stream))
			}
		}
	case prommodel.Vector:
		for _, sample := range value {
			if sample != nil {
				l.podLabels(sample.Metric, int64(sample.Timestamp))
			}
		}
	default:
		l.faults.query(query, fmt.Errorf("the answer is %s: let --metric-for-pod-labels be a query for a range or an instant vector", kindOf(value)))
		return
	}
	for _, id := range l.usage.ids() {
		if l.usage[id].labels == nil {
			l.faults.add(&fault{one: "pod", many: "pods", example: id.Namespace + "/" + id.Name, text: "with usage but without labels in " + query +
				" (see --metric-for-pod-labels, whose range, such as kube_pod_labels[8d], covers pods that are gone)"})
		}
	}
}

// podLabels takes the labels of one series, if it is the pod's newest. Of several that end together
// the first in the order of their text counts, so that two loads agree.
func (l *load) podLabels(metric prommodel.Metric, end int64) {
	values, ok := l.need(l.config.PodLabelsQuery, metric, l.config.PodNamespaceLabel, l.config.PodNameLabel)
	if !ok {
		return
	}
	p := l.usage[model.PodID{Namespace: values[0], Name: values[1]}]
	if p == nil {
		return
	}
	from := metric.String()
	if p.labels != nil && (end < p.labelsEnd || end == p.labelsEnd && from >= p.labelsFrom) {
		return
	}
	p.labels, p.labelsEnd, p.labelsFrom = map[string]string{}, end, from
	for name, value := range metric {
		if label, ok := strings.CutPrefix(string(name), l.config.PodLabelPrefix); ok && label != "" {
			p.labels[label] = string(value)
		}
	}
}

// end is the time of a series' newest value.
func end(stream *prommodel.SampleStream) int64 {
	out := int64(math.MinInt64)
	if n := len(stream.Values); n > 0 {
		out = max(out, int64(stream.Values[n-1].Timestamp))
	}
	if n := len(stream.Histograms); n > 0 {
		out = max(out, int64(stream.Histograms[n-1].Timestamp))
	}
	return out
}

// kindOf names the type of an answer.
func kindOf(value prommodel.Value) string {
	if value == nil {
		return "nothing"
	}
	return "a " + value.Type().String()
}

// ask runs one query within its time-out. One that finds no Prometheus, or one that is not ready,
// is asked again as long as the patience of this load lasts; after that nothing more is asked of a
// Prometheus that cannot be reached.
func (l *load) ask(ctx context.Context, query func(context.Context) (prommodel.Value, promapi.Warnings, error), of string) (prommodel.Value, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Duration(l.config.QueryTimeout))
		value, warnings, err := query(attempt)
		cancel()
		for _, w := range warnings {
			l.faults.add(&fault{one: "warning", many: "warnings", text: "of Prometheus about " + of, example: w})
		}
		switch {
		case err == nil:
			return value, nil
		case ctx.Err() != nil:
			l.gone = true
			return nil, fmt.Errorf("reading history was stopped: %w", ctx.Err())
		case !mayPass(err) || l.patience.Steps <= 0:
			if l.gone = unreachable(err); l.gone {
				err = fmt.Errorf("%w; Prometheus is unreachable, so the remaining queries are skipped", err)
			}
			return nil, err
		}
		delay := l.patience.Step()
		l.waiting(delay, shorten(err.Error()))
		select {
		case <-ctx.Done():
			l.gone = true
			return nil, fmt.Errorf("waiting for Prometheus was stopped (%w); it last said %w", ctx.Err(), err)
		case <-l.clock.After(delay):
		}
	}
}

// unreachable: no answer came at all, and not because of a query's own time-out.
func unreachable(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) && !errors.Is(err, context.DeadlineExceeded)
}

// mayPass: another try may succeed, as there is no Prometheus yet, one that is still starting, one
// that ended in the middle of an answer, or one that has too many queries at once.
func mayPass(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) || errors.Is(err, errLongAnswer) {
		return false
	}
	kind, text := reason(err)
	busy := kind == promapi.ErrClient && strings.Contains(text, strconv.Itoa(http.StatusTooManyRequests))
	return unreachable(err) || kind == promapi.ErrServer || busy || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// hopeless: the rest of the same metric would fail as well, or as slowly.
func hopeless(err error) bool {
	kind, _ := reason(err)
	switch kind {
	case promapi.ErrBadData, promapi.ErrClient, promapi.ErrTimeout, promapi.ErrCanceled:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}
