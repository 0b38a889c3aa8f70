package history

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// labelsPart is the first part of the time in which labels are asked for.
const labelsPart = time.Hour

// labels loads the labels of the pods that have samples. Unlike upstream, it also reads an instant
// vector, which its default query returns (UPSTREAM.md §2.18, hazard 24).
//
// Of a range, such as kube_pod_labels[8d], an answer has each scrape of each pod: 23,000 of a pod for
// 8 days, every 30 seconds. So it is asked for in parts, the newest first, each as long as makes about
// 250,000 samples.
func (l *load) labels(ctx context.Context, into usage, now time.Time) {
	if l.gone || len(into) == 0 {
		return
	}
	query, expr, err := l.config.podLabels()
	if err == nil {
		if span := rangeOf(expr); span != nil {
			err = l.labelParts(ctx, span, into, now)
		} else {
			_, err = l.labelsAt(ctx, query, into, now)
		}
	}
	if err != nil {
		l.faults.query(query, err)
		return
	}
	for _, id := range into.ids() {
		if into[id].labels == nil {
			l.faults.add(&fault{one: "pod", many: "pods", example: id.Namespace + "/" + id.Name, text: "with usage but without labels in " + query +
				" (see --metric-for-pod-labels, whose range, such as kube_pod_labels[8d], covers pods that are gone)"})
		}
	}
}

// rangeOf is the expression if it is a selector with a range and nothing else; nil if not.
func rangeOf(expr parser.Expr) *parser.MatrixSelector {
	for {
		switch e := expr.(type) {
		case *parser.ParenExpr:
			expr = e.Expr
			continue
		case *parser.MatrixSelector:
			if of, ok := e.VectorSelector.(*parser.VectorSelector); ok && e.RangeExpr == nil && of.Timestamp == nil && of.StartOrEnd == 0 {
				return e
			}
		}
		return nil
	}
}

// labelParts asks for a range in parts, whose samples together are those of the range.
func (l *load) labelParts(ctx context.Context, span *parser.MatrixSelector, into usage, now time.Time) error {
	begin, part, largest, late := now.Add(-span.Range), labelsPart, span.Range, 0
	for end := now; end.After(begin); {
		part = min(part, largest)
		span.Range = min(part, end.Sub(begin))
		if l.answered {
			l.patience = piecePatience
		}
		samples, err := l.labelsAt(ctx, span.String(), into, end)
		of := classOf(err)
		if of == slow {
			late++
		}
		switch {
		case err == nil:
			late = 0
			end = end.Add(-span.Range)
			if part *= 4; samples > 0 {
				part = min(part, time.Duration(pieceSamples/float64(samples)*float64(span.Range)))
			}
		case (of == large || of == slow) && late < inARow && span.Range > time.Minute:
			part = span.Range / 2
			largest = part
		default:
			return err
		}
		part = max(part.Truncate(time.Second), time.Second)
	}
	return nil
}

// labelsAt asks once, and says how many samples the answer had.
func (l *load) labelsAt(ctx context.Context, query string, into usage, at time.Time) (samples int, err error) {
	value, err := l.ask(ctx, l.at(query, at), query)
	if err != nil {
		return 0, err
	}
	switch value := value.(type) {
	case prommodel.Matrix:
		for _, stream := range value {
			if stream != nil {
				samples += len(stream.Values) + len(stream.Histograms)
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
		return 0, fmt.Errorf("the answer is %s: let --metric-for-pod-labels be a query for a range or an instant vector", kindOf(value))
	}
	return samples, nil
}

// podLabels takes the labels of one series, if it is the pod's newest. Of several that end together
// the first in the order of their text counts, so that two loads agree.
func (l *load) podLabels(into usage, metric prommodel.Metric, end int64) {
	values, ok := l.need(l.config.PodLabelsQuery, metric, l.config.PodNamespaceLabel, l.config.PodNameLabel)
	if !ok {
		return
	}
	p := into[model.PodID{Namespace: values[0], Name: values[1]}]
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
