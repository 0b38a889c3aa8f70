package usagefile

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/controllers/recommender/history"
)

// contradictions finds what history.Source finds at a server: series of one container that do not agree,
// and usage of several clusters.
type contradictions struct {
	sources  map[Series]map[string]*source // by labels
	labels   map[string]string             // the same texts once: those of a node's containers are alike
	clusters map[string]map[string]*span   // by metric, then cluster
}

// source is what one series of a container's memory says, or several of one run.
type source struct {
	when span
	peak int64 // the largest amount
}

// mostClusters bounds the clusters of a metric that are compared.
const mostClusters = 100

// span is from the first to the last time.
type span struct{ first, last int64 }

// nothing is a span that with adds to.
var nothing = span{math.MaxInt64, math.MinInt64}

func (s span) with(at int64) span { return span{min(s.first, at), max(s.last, at)} }

func (s span) and(other span) span { return span{max(s.first, other.first), min(s.last, other.last)} }

// lasts reports whether a contradiction in this span is no matter of a restart: it is long, or those that
// contradict each other are of the same time from beginning to end.
func (s span) lasts(a, b span) bool {
	return s.first < s.last && (a == b || s.last-s.first >= int64(history.ConflictLasts))
}

// choice is the way out for usage in files.
func choice(labels ...history.Differing) string {
	if len(labels) == 0 {
		return "Read the series of one"
	}
	return "Read the series of one, with a matcher in the query such as " + labels[0].Matcher()
}

// of is the source that a series is of, nil if it says nothing, and how many bytes that is new takes.
func (c *contradictions) of(series Series, metric map[string]string) (_ *source, bytes int) {
	if series.Kind != Memory {
		return nil, 0
	}
	known := len(c.labels)
	text := c.text(metric)
	if len(c.labels) > known {
		bytes = len(text)
	}
	all := c.sources[series]
	if all == nil {
		all = map[string]*source{}
		c.sources[series] = all
	}
	if all[text] == nil {
		all[text] = &source{when: nothing}
		bytes += bytesPerSeries
	}
	return all[text], bytes
}

// text is one for the labels that sources differ in.
func (c *contradictions) text(metric map[string]string) string {
	var out strings.Builder
	for _, label := range slices.Sorted(maps.Keys(metric)) {
		switch {
		case label == "namespace", label == "pod", label == "container", label == "__name__", history.OfOneRun(label):
		default:
			out.WriteString(label + "\x00" + metric[label] + "\x00")
		}
	}
	text := out.String()
	if known, ok := c.labels[text]; ok {
		return known
	}
	c.labels[text] = text
	return text
}

func (s *source) add(at, amount int64) {
	if s != nil {
		s.when, s.peak = s.when.with(at), max(s.peak, amount)
	}
}

// inCluster notes when a series of a metric has values.
func (c *contradictions) inCluster(metric map[string]string, when span) {
	name := nameOf(metric)
	if c.clusters[name] == nil {
		if len(c.clusters) >= mostKept {
			return
		}
		c.clusters[name] = map[string]*span{}
	}
	cluster := c.clusters[name][metric[history.ClusterLabel]]
	if cluster == nil {
		if len(c.clusters[name]) < mostClusters {
			c.clusters[name][metric[history.ClusterLabel]] = &when
		}
		return
	}
	cluster.first, cluster.last = min(cluster.first, when.first), max(cluster.last, when.last)
}

// notes name what contradicts, or else several clusters.
func (c *contradictions) notes() []string {
	var found history.Conflict
	var first Series
	for series, all := range c.sources {
		if !contradict(all) {
			continue
		}
		if found.Containers++; found.Containers == 1 || compare(series, first) < 0 {
			first = series
		}
	}
	if found.Containers == 0 {
		return c.several()
	}
	var labels []map[string]string
	for text := range c.sources[first] {
		values := map[string]string{}
		for parts := strings.Split(text, "\x00"); len(parts) > 1; parts = parts[2:] {
			values[parts[0]] = parts[1]
		}
		labels = append(labels, values)
	}
	found.Pod, found.Container, found.Labels = first.Pod, first.Container, history.Differences(labels)
	return []string{found.Text(choice(found.Labels...))}
}

// contradict reports whether two sources have different peaks, and are of the same time for long enough.
func contradict(all map[string]*source) bool {
	for _, a := range all {
		for _, b := range all {
			if history.Contradict(a.peak, b.peak) && a.when.and(b.when).lasts(a.when, b.when) {
				return true
			}
		}
	}
	return false
}

// several names clusters whose usage is of the same time.
func (c *contradictions) several() []string {
	for _, name := range slices.Sorted(maps.Keys(c.clusters)) {
		values := slices.Sorted(maps.Keys(c.clusters[name]))
		for i, a := range values {
			for _, b := range values[i+1:] {
				x, y := c.clusters[name][a], c.clusters[name][b]
				if x.and(*y).lasts(*x, *y) {
					differing := history.Differing{Label: history.ClusterLabel, Values: values}
					return []string{history.SeveralClusters(differing, choice(differing))}
				}
			}
		}
	}
	return nil
}

// compare orders series by namespace, pod, container and kind.
func compare(a, b Series) int {
	return cmp.Or(strings.Compare(a.Pod.Namespace, b.Pod.Namespace), strings.Compare(a.Pod.Name, b.Pod.Name),
		strings.Compare(a.Container, b.Container), cmp.Compare(a.Kind, b.Kind))
}
