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

// Bounds of the parts of the time in which labels are asked for.
const (
	labelsPart  = time.Hour     // the first
	labelsBlind = 8 * time.Hour // as long as nobody knows how many samples a part has
	labelsLeast = time.Minute   // is not halved
)

// labels loads the labels of pods. Unlike upstream, it also reads an instant vector, which its default
// query returns (UPSTREAM.md §2.18, hazard 24).
//
// Of a range, such as kube_pod_labels[8d], an answer has each scrape of each pod: 23,000 of a pod for
// 8 days, every 30 seconds. So it is asked for in parts, the newest first, each as long as makes about
// 250,000 samples. A part that never comes leaves out the pods that only it has.
func (l *load) labels(ctx context.Context, into usage, now time.Time) {
	query, expr, err := l.config.podLabels()
	if err != nil {
		l.faults.query(query, err)
		return
	}
	if span := rangeOf(expr); span != nil {
		l.labelParts(ctx, span, into, now)
	} else if _, err = l.labelsAt(ctx, query, into, now); err != nil {
		l.unlabelled = true
		l.faults.query(query, err)
	}
}

// withoutLabels counts the pods that have usage and no labels, if all labels came.
func (l *load) withoutLabels(of usage) {
	if l.unlabelled || l.gone {
		return
	}
	for _, id := range of.ids() {
		if len(of[id].containers) > 0 && of[id].labels == nil {
			l.faults.add(&fault{one: "pod", many: "pods", example: id.Namespace + "/" + id.Name, text: "with usage but without labels in " + l.config.PodLabelsQuery +
				" (see --metric-for-pod-labels, whose range, such as kube_pod_labels[8d], covers pods that are gone)"})
		}
	}
}

// ranged is an expression with a range that can be read in parts.
type ranged struct {
	parser.Expr
	length *time.Duration // in the expression
}

// rangeOf is the expression if it is a range, of a selector or of a subquery, whose samples are those
// of its parts; nil if not.
func rangeOf(expr parser.Expr) *ranged {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return rangeOf(e.Expr)
	case *parser.MatrixSelector:
		if of, ok := e.VectorSelector.(*parser.VectorSelector); ok && e.RangeExpr == nil && of.Timestamp == nil && of.StartOrEnd == 0 {
			return &ranged{e, &e.Range}
		}
	case *parser.SubqueryExpr:
		if e.RangeExpr == nil && e.Timestamp == nil && !hasOwnTime(e) {
			return &ranged{e, &e.Range}
		}
	}
	return nil
}

// hasOwnTime: a part of the expression is of the time at which the query is asked.
func hasOwnTime(expr parser.Expr) (found bool) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			found = found || n.StartOrEnd != 0
		case *parser.SubqueryExpr:
			found = found || n.StartOrEnd != 0
		}
		return nil
	})
	return found
}

// labelParts asks for a range in parts, whose samples together are those of the range.
func (l *load) labelParts(ctx context.Context, span *ranged, into usage, now time.Time) {
	begin, part, largest := now.Add(-*span.length), labelsPart, *span.length
	known, late, missed := labelsBlind, 0, 0 // a part of the length known has few enough samples
	for end := now; end.After(begin); part = max(part.Truncate(time.Second), time.Second) {
		*span.length = min(part, largest, end.Sub(begin))
		if l.answered {
			l.patience = piecePatience
		}
		samples, err := l.labelsAt(ctx, span.String(), into, end)
		of := classOf(err)
		if of == slow {
			late++
		}
		if (of == large || of == slow && late < inARow) && *span.length > labelsLeast {
			part = *span.length / 2
			largest = part
			continue
		}
		if samples > 0 {
			known = time.Duration(pieceSamples / float64(samples) * float64(*span.length))
		}
		if err == nil {
			late, missed = 0, 0
			part = min(4**span.length, known)
		} else {
			l.unlabelled = true
			l.faults.query(fmt.Sprintf("%s, a part of the time,", l.config.PodLabelsQuery), err)
			if missed++; of == refused || l.gone || missed >= inARow || late >= inARow {
				return
			}
		}
		end = end.Add(-*span.length)
	}
}

// labelsAt asks once, and says how many samples the answer had.
func (l *load) labelsAt(ctx context.Context, query string, into usage, at time.Time) (samples int, err error) {
	value, err := l.ask(ctx, l.at(query, at), l.config.PodLabelsQuery)
	if err != nil {
		return 0, err
	}
	l.unlabelled = l.unlabelled || l.lacking[l.config.PodLabelsQuery] > 0
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
	if l.config.Namespace != "" && values[0] != l.config.Namespace {
		return
	}
	p := into.pod(model.PodID{Namespace: values[0], Name: values[1]})
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
