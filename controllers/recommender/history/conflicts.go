package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"

	"github.com/celvpa/celvpa/controllers/metric"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

var conflictsTotal = metric.Counter("celvpa_recommender_history_conflicts_total",
	"Containers whose series in Prometheus contradict each other (kind series), and reads of history that found series of several clusters (kind cluster).", "kind")

// ConflictLasts is how long series have to contradict each other at least. It is longer than
// Prometheus's look-back of five minutes, for which a series goes on after the container restarted on
// another node.
const ConflictLasts = 10 * time.Minute

// ClusterLabel is what the label is called that distinguishes clusters, by convention.
const ClusterLabel = "cluster"

const checkTimes = 48

// ofOneRun are labels that change when a container restarts, and those that distinguish replicas
// of a Prometheus, which agree but for the moment at which they scrape.
var ofOneRun = []string{"id", "name", "image", "prometheus_replica", "replica", "__replica__", "rule_replica", "thanos_replica"}

// OfOneRun reports whether a label differs between series that do not contradict each other.
func OfOneRun(label string) bool { return slices.Contains(ofOneRun, label) }

// Contradict reports whether two amounts of one time differ too much to be of one container.
func Contradict(less, more int64) bool { return float64(more) > 1.1*float64(less) }

// ofPlaces are labels that differ between clusters, and are no good to distinguish clusters.
var ofPlaces = []string{"instance", "node", "host", "hostname", "kubernetes_io_hostname", "endpoint", "service", "uid"}

// checkQuery finds containers of which two series have samples at the same time, and differ by more than a
// tenth. Memory shows as much as CPU, and is cheaper to query.
func (c *Config) checkQuery() string {
	var gone []string
	for _, label := range ofOneRun {
		if !slices.Contains(c.identity(), label) {
			gone = append(gone, label)
		}
	}
	runs := "max without (" + strings.Join(gone, ", ") + ") (" + c.selector(c.MemoryMetric) + ")"
	return c.aggregate("max", runs) + " > 1.1 * " + c.aggregate("min", runs)
}

// containerID names a container.
type containerID struct {
	pod  model.PodID
	name string
}

// conflicts says in words which series contradict each other in a time that was read, and counts them;
// empty = none, as far as is known. A container counts if it is found at two times or more.
func (l *load) conflicts(ctx context.Context, from, to time.Time) string {
	if !l.found || l.ended {
		return ""
	}
	times := map[containerID][]prommodel.Time{}
	l.check(ctx, l.config.checkQuery(), from, to, func(stream *prommodel.SampleStream) {
		var values []string
		for _, label := range l.config.identity() {
			values = append(values, string(stream.Metric[prommodel.LabelName(label)]))
		}
		id := containerID{model.PodID{Namespace: values[0], Name: values[1]}, values[2]}
		for _, v := range stream.Values {
			times[id] = append(times[id], v.Timestamp)
		}
	})
	maps.DeleteFunc(times, func(_ containerID, at []prommodel.Time) bool { return len(at) < 2 })
	if len(times) == 0 {
		return l.clusters(ctx, from, to)
	}
	conflictsTotal.WithLabelValues("series").Add(float64(len(times)))
	first := slices.MinFunc(slices.Collect(maps.Keys(times)), func(a, b containerID) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.name, b.name))
	})
	found := Conflict{len(times), first.pod, first.name, l.differing(ctx, first, slices.Max(times[first]).Time())}
	return found.Text(byFlag(found.Labels...))
}

// check gives the series of an answer that is only for a note, at checkTimes at most. A failure is a
// note, too.
func (l *load) check(ctx context.Context, text string, from, to time.Time, take func(*prommodel.SampleStream)) {
	step := max(to.Sub(from)/checkTimes, ConflictLasts).Truncate(time.Second)
	r := reading{
		load: l, name: "series that contradict each other", from: from, to: to, step: step, faults: &l.notes,
		query: func(from, to time.Time) query { return query{text, promapi.Range{Start: from, End: to, Step: step}} },
		take: func(value prommodel.Value, _, _ time.Time) error {
			matrix, _ := value.(prommodel.Matrix)
			for _, stream := range matrix {
				if stream != nil {
					take(stream)
				}
			}
			return nil
		},
	}
	_ = r.run(ctx) // that the context has ended
}

// clusters looks for series of several clusters without a conflict: names of pods seldom are the same
// in two clusters, and yet the pods of both would count for one workload.
func (l *load) clusters(ctx context.Context, from, to time.Time) string {
	if slices.Contains(l.config.Matchers.names(), ClusterLabel) {
		return ""
	}
	text := "count by (" + ClusterLabel + ") (" + l.config.selector(l.config.MemoryMetric) + ")"
	seen := map[prommodel.Time]bool{}
	values := map[string]bool{}
	several := false // at one time; otherwise it may have been renamed
	l.check(ctx, text, from, to, func(stream *prommodel.SampleStream) {
		values[string(stream.Metric[ClusterLabel])] = true
		for _, v := range stream.Values {
			several = several || seen[v.Timestamp]
			seen[v.Timestamp] = true
		}
	})
	if !several {
		return ""
	}
	conflictsTotal.WithLabelValues("cluster").Inc()
	label := Differing{ClusterLabel, slices.Sorted(maps.Keys(values))}
	return SeveralClusters(label, byFlag(label))
}

// differing finds what differs between the series of a container at one time.
func (l *load) differing(ctx context.Context, id containerID, at time.Time) []Differing {
	var series []map[string]string
	l.check(ctx, l.config.selector(l.config.MemoryMetric, l.config.container(id)...), at, at, func(stream *prommodel.SampleStream) {
		labels := map[string]string{}
		for label, value := range stream.Metric {
			labels[string(label)] = string(value)
		}
		series = append(series, labels)
	})
	return Differences(series)
}

// Differing is a label that differs between series of one container, with its values, sorted.
type Differing struct {
	Label  string
	Values []string
}

// String names the label and its first three values, for messages.
func (d Differing) String() string {
	const most = 3
	var out []string
	for _, value := range d.Values[:min(most, len(d.Values))] {
		out = append(out, strconv.Quote(value))
	}
	more := ""
	if len(d.Values) > most {
		more = fmt.Sprintf(" or %d more", len(d.Values)-most)
	}
	return d.Label + " is " + strings.Join(out, " or ") + more
}

// Matcher is one in PromQL that chooses between the series.
func (d Differing) Matcher() string {
	value := d.Values[len(d.Values)-1] // the first may be empty
	return labelTexts([]string{d.Label}) + "=" + strconv.Quote(value)
}

// byFlag is the way out of a conflict for what is read from a server.
func byFlag(labels ...Differing) string {
	if len(labels) == 0 {
		return "Choose with --prometheus-matchers"
	}
	return "Choose with a flag such as --prometheus-matchers='" + labels[0].Matcher() + "'"
}

// SeveralClusters says that usage is of several clusters, and the way out.
func SeveralClusters(label Differing, choice string) string {
	return fmt.Sprintf("usage is of several clusters: label %s; pods of all of them count. %s", label, choice)
}

// Differences are the labels that differ between series. Those that are likely to tell clusters apart
// come first.
func Differences(series []map[string]string) (out []Differing) {
	values := map[string]map[string]bool{}
	for _, s := range series {
		for label := range s {
			values[label] = map[string]bool{}
		}
	}
	for label, all := range values {
		for _, s := range series {
			all[s[label]] = true
		}
		if len(all) > 1 && !OfOneRun(label) {
			out = append(out, Differing{label, slices.Sorted(maps.Keys(all))})
		}
	}
	rank := func(label string) int {
		switch {
		case strings.Contains(label, ClusterLabel):
			return 0
		case slices.Contains(ofPlaces, label):
			return 2
		}
		return 1
	}
	slices.SortFunc(out, func(a, b Differing) int {
		return cmp.Or(cmp.Compare(rank(a.Label), rank(b.Label)), cmp.Compare(a.Label, b.Label))
	})
	return out
}

// Conflict is series of containers that contradict each other.
type Conflict struct {
	Containers int
	Pod        model.PodID // of the first container
	Container  string
	Labels     []Differing // between its series
}

// Text reads: "2 containers have series that contradict each other, e.g. app of pod shop/db-0: label
// cluster is "a" or "b"; the largest amount of each time counts." and the way out.
func (c *Conflict) Text(choice string) string {
	verb := "container has"
	if c.Containers > 1 {
		verb = "containers have"
	}
	text := fmt.Sprintf("%d %s series that contradict each other, e.g. %s of pod %s/%s", c.Containers, verb, c.Container, c.Pod.Namespace, c.Pod.Name)
	var other []string
	for i, label := range c.Labels {
		if i == 0 {
			text += ": label " + label.String()
			continue
		}
		other = append(other, label.Label)
	}
	if len(other) > 0 {
		text += " (" + strings.Join(other, ", ") + " differ, too)"
	}
	return text + "; the largest amount of each time counts. " + choice
}
