package usagefile

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
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

// source is what one series of a container's memory says, or several of one run, at some of its times.
type source struct {
	when   span // of all its points
	points []finePoint
	level  int // at times whose hash begins with so many zeros, so that all sources have the same times
}

// mostClusters bounds the clusters of a metric that are compared.
const mostClusters = 100

// span is from the first to the last time.
type span struct{ first, last int64 }

// nothing is a span that with adds to.
var nothing = span{math.MaxInt64, math.MinInt64}

func (s span) with(at int64) span { return span{min(s.first, at), max(s.last, at)} }

// lasts reports whether a contradiction in this span is no matter of a restart: it is long, or those that
// contradict each other are of the same time from beginning to end.
func (s span) lasts(a, b span) bool {
	return s.first < s.last && (a == b || s.last-s.first >= int64(history.ConflictLasts))
}

// mostPoints bounds the points of a source. Those that contradict others do so for most of the time.
const mostPoints = 16

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

// zeros is how many zeros the hash of a time begins with. It mixes all bits, for times are regular.
func zeros(at int64) int {
	h := uint64(at)
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return bits.LeadingZeros64(h ^ h>>31)
}

// add keeps a point of some.
func (s *source) add(at, amount int64) {
	if s == nil {
		return
	}
	if s.when = s.when.with(at); zeros(at) < s.level {
		return
	}
	s.points = append(s.points, finePoint{at, amount})
	for len(s.points) > mostPoints && s.level < 64 {
		s.level++
		s.points = slices.DeleteFunc(s.points, func(p finePoint) bool { return zeros(p.at) < s.level })
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
	one := c.clusters[name][metric[history.ClusterLabel]]
	if one == nil {
		if len(c.clusters[name]) < mostClusters {
			c.clusters[name][metric[history.ClusterLabel]] = &when
		}
		return
	}
	one.first, one.last = min(one.first, when.first), max(one.last, when.last)
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
		one := map[string]string{}
		for parts := strings.Split(text, "\x00"); len(parts) > 1; parts = parts[2:] {
			one[parts[0]] = parts[1]
		}
		labels = append(labels, one)
	}
	found.Pod, found.Container, found.Labels = first.Pod, first.Container, history.Differences(labels)
	return []string{found.Text(choice(found.Labels...))}
}

// contradict reports whether sources differ for long enough.
func contradict(all map[string]*source) bool {
	if len(all) < 2 {
		return false
	}
	level := 0
	first, last := nothing, nothing // of the beginnings and of the ends
	for _, one := range all {
		level = max(level, one.level)
		first, last = first.with(one.when.first), last.with(one.when.last)
	}
	type range64 struct{ least, most int64 }
	at := map[int64]range64{}
	for _, one := range all {
		most := map[int64]int64{} // of one run
		for _, p := range one.points {
			if zeros(p.at) >= level {
				most[p.at] = max(most[p.at], p.amount)
			}
		}
		for when, amount := range most {
			r, known := at[when]
			if !known {
				r = range64{math.MaxInt64, 0}
			}
			at[when] = range64{min(r.least, amount), max(r.most, amount)}
		}
	}
	over := nothing
	for when, r := range at {
		if history.Contradict(r.least, r.most) {
			over = over.with(when)
		}
	}
	return over.lasts(span{first.first, last.first}, span{first.last, last.last})
}

// several names clusters whose usage is of the same time.
func (c *contradictions) several() []string {
	for _, name := range slices.Sorted(maps.Keys(c.clusters)) {
		values := slices.Sorted(maps.Keys(c.clusters[name]))
		for i, a := range values {
			for _, b := range values[i+1:] {
				x, y := c.clusters[name][a], c.clusters[name][b]
				if both := (span{max(x.first, y.first), min(x.last, y.last)}); both.lasts(*x, *y) {
					one := history.Differing{Label: history.ClusterLabel, Values: values}
					return []string{history.SeveralClusters(one, choice(one))}
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
