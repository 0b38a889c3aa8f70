package history

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// labelsStep is the smallest part of a range of labels.
const labelsStep = time.Minute

// labels loads the labels of pods, and reports whether all came. Unlike upstream, it also reads an
// instant vector, which its default query returns (UPSTREAM.md §2.18, hazard 24).
//
// Of a range, such as kube_pod_labels[8d], an answer has each scrape of each pod: 23,000 of a pod for
// 8 days, every 30 seconds. So it is asked for in parts, whose samples together are those of the range.
// A part that never comes leaves out the pods that only it has.
func (l *load) labels(ctx context.Context, into pods, now time.Time) (complete bool, err error) {
	text, expr, err := l.config.podLabels()
	if err != nil {
		return false, err
	}
	r := &reading{
		load: l, name: l.config.PodLabelsQuery, from: now, to: now, step: labelsStep, faults: &l.lost,
		query: func(_, at time.Time) query { return query{text, promapi.Range{End: at}} },
		take:  func(value prommodel.Value, _, _ time.Time) error { return l.takeLabels(into, value) },
	}
	if part := rangeOf(expr); part != nil {
		length := *part
		r.step = min(labelsStep, length)
		r.from = now.Add(-(length - 1).Truncate(r.step))
		r.query = func(from, to time.Time) query {
			*part = min(to.Sub(from)+r.step, length)
			return query{expr.String(), promapi.Range{End: to}}
		}
	}
	err = r.run(ctx)
	return !r.gaps, err
}

// takeLabels takes the labels in an answer.
func (l *load) takeLabels(into pods, value prommodel.Value) error {
	switch value := value.(type) {
	case prommodel.Matrix:
		for _, stream := range value {
			if stream != nil {
				l.podLabels(into, stream.Metric, end(stream))
			}
		}
	case prommodel.Vector:
		for _, sample := range value {
			if sample != nil {
				l.podLabels(into, sample.Metric, int64(sample.Timestamp))
			}
		}
	default:
		return &failure{text: fmt.Sprintf("the answer is %s: let --metric-for-pod-labels be a query for a range or an instant vector", kindOf(value))}
	}
	return nil
}

// rangeOf is the length in an expression that is a range, of a selector or of a subquery, and whose
// samples are those of its parts; nil if it is not.
func rangeOf(expr parser.Expr) *time.Duration {
	fixed := false // a part of it is of a time of its own
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			fixed = fixed || n.Timestamp != nil || n.StartOrEnd != 0
		case *parser.SubqueryExpr:
			fixed = fixed || n.Timestamp != nil || n.StartOrEnd != 0
		}
		return nil
	})
	for inner, ok := expr.(*parser.ParenExpr); ok; inner, ok = expr.(*parser.ParenExpr) {
		expr = inner.Expr
	}
	switch e := expr.(type) {
	case *parser.MatrixSelector:
		if !fixed && e.RangeExpr == nil {
			return &e.Range
		}
	case *parser.SubqueryExpr:
		if !fixed && e.RangeExpr == nil {
			return &e.Range
		}
	}
	return nil
}

// podLabels takes the labels of one series, if it is the pod's newest. Of several that end together
// the first in the order of their text counts, so that two loads agree.
func (l *load) podLabels(into pods, metric prommodel.Metric, end int64) {
	values, ok := l.need(l.config.PodLabelsQuery, metric, l.config.PodNamespaceLabel, l.config.PodNameLabel)
	if !ok {
		return
	}
	if l.config.Namespace != "" && values[0] != l.config.Namespace {
		return
	}
	p := into.of(model.PodID{Namespace: values[0], Name: values[1]})
	from := metric.String()
	if p.Labels != nil && (end < p.labelsEnd || end == p.labelsEnd && from >= p.labelsFrom) {
		return
	}
	p.Labels, p.labelsEnd, p.labelsFrom = map[string]string{}, end, from
	for name, value := range metric {
		if label, ok := strings.CutPrefix(string(name), l.config.PodLabelPrefix); ok && label != "" {
			p.Labels[label] = string(value)
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
