package upstream

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flagSets is how many sets of flags stories choose from: the rules are compiled for each.
const flagSets = 7

// writer generates a story.
type writer struct {
	*rand.Rand
	story
	now  time.Duration
	kind storyKind
	pods []*actor
	gone []*actor
	vpas map[string]bool
	made int // pods
}

// storyKind is what may happen in a story.
type storyKind struct {
	relabel bool // labels of pods without memory samples change; not together with collecting, see the table of differences
	collect bool
	restart bool
	perVPA  bool // VPAs choose how usage is remembered; they do not share pods then, see the table of differences
	noEnd   bool // no pod goes away, as celvpa's state cannot be notified from outside
	one     bool // one VPA and one set of labels: nothing is merged
}

// actor is a pod.
type actor struct {
	namespace, name string
	labels          map[string]string
	containers      []string
	bases           map[string][2]int64 // typical usage of containers
	relabels        bool                // its labels may change, and it has no memory samples
}

// imagine generates a story from a seed.
func imagine(seed uint64, kind storyKind) story {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 7)), kind: kind, vpas: map[string]bool{}}
	w.Flags, w.PerVPA = imagineFlags(seed%flagSets), kind.perVPA
	w.settle()
	for range 1 + w.IntN(3) {
		w.vpa()
	}
	for range 1 + w.IntN(4) {
		w.pod()
	}
	paces := [][]time.Duration{{time.Minute}, {time.Minute, 5 * time.Minute}, {time.Hour}, {5 * time.Minute, time.Hour, 8 * time.Hour, 24 * time.Hour}}
	n, gap := w.IntN(len(paces)), 12
	if !kind.one {
		gap = 2
		if n == 3 { // weeks, of which none may come to nothing
			w.Flags["cpu-histogram-decay-half-life"], w.Flags["memory-histogram-decay-half-life"] = "336h", "336h"
		}
	}
	pace := paces[n]
	for range 30 + w.IntN(120) {
		w.now += pace[w.IntN(len(pace))]
		if w.chance(0.01) {
			w.now += time.Duration(1+w.IntN(gap)) * 24 * time.Hour
		}
		w.change()
		w.scrape()
		if w.chance(0.1) {
			w.say(happens{Do: doCompare})
		}
	}
	return w.story
}

// settle avoids input on which the sides differ by design. In upstream, reading several histories
// changes them: if one of them is many half-lives older, its outermost percentiles change, and all
// of it if another VPA reads it alone. For pods that no VPA selects, celvpa aggregates memory by
// upstream's defaults, whatever the flags say.
func (w *writer) settle() {
	keep := func(name string, right bool) {
		if !right {
			delete(w.Flags, name)
		}
	}
	if !w.kind.one {
		for name, text := range w.Flags {
			keep(name, !strings.HasSuffix(name, "-percentile") || text != "0" && text != "1")
		}
		for _, name := range []string{"cpu-histogram-decay-half-life", "memory-histogram-decay-half-life"} {
			keep(name, w.Flags.duration(name, 0) >= 24*time.Hour)
		}
	}
	switch {
	case w.kind.one:
		w.vpa()
	case w.kind.perVPA:
		keep("oom-bump-up-ratio", w.Flags["oom-bump-up-ratio"] != "1") // with nothing added it turns OOMs off
		for len(w.vpas) < 2 {
			w.vpa()
		}
	default:
		for _, namespace := range []string{"", "other"} {
			w.say(happens{Do: doVPA, Namespace: namespace, Name: "all", Age: 1000})
		}
	}
}

// imagineFlags is one of the sets of flags; the first has upstream's defaults.
func imagineFlags(n uint64) flags {
	f := flags{}
	if n == 0 {
		return f
	}
	r := rand.New(rand.NewPCG(n, 11))
	some := func(name string, values ...string) {
		if r.IntN(2) == 0 {
			f[name] = values[r.IntN(len(values))]
		}
	}
	some("cpu-histogram-decay-half-life", "1h", "24h", "30m", "168h", "90s")
	some("memory-histogram-decay-half-life", "1h", "24h", "7h", "168h")
	some("memory-aggregation-interval", "1h", "12h", "24h", "10m")
	some("memory-aggregation-interval-count", "1", "3", "30")
	some("oom-bump-up-ratio", "1", "1.5", "2.25")
	some("oom-min-bump-up-bytes", "0", "1e6", "1048576.5")
	for _, r := range []string{"cpu", "memory"} {
		some("target-"+r+"-percentile", "0.5", "0.95", "1", "0")
		some("recommendation-lower-bound-"+r+"-percentile", "0.1", "0.75", "0")
		some("recommendation-upper-bound-"+r+"-percentile", "0.99", "1", "0.6")
		some("confidence-interval-"+r, "1h", "48h", "7m")
	}
	some("recommendation-margin-fraction", "0", "0.33", "2", "0.1")
	some("pod-recommendation-min-cpu-millicores", "0", "10", "33.3", "1000")
	some("pod-recommendation-min-memory-mb", "0", "1", "99.9", "4096")
	some("container-recommendation-max-allowed-cpu", "100m", "2", "0")
	some("container-recommendation-max-allowed-memory", "300Mi", "1G", "0")
	some("round-cpu-millicores", "1", "10", "50", "1000")
	some("round-memory-bytes", "1", "1000", "134217728", "33")
	some("cpu-integer-post-processor-enabled", "true")
	f["test-begin-minute"] = strconv.Itoa(r.IntN(3000))
	return f
}

func (w *writer) chance(p float64) bool { return w.Float64() < p }

func (w *writer) say(h happens) {
	h.At = span(w.now)
	w.Events = append(w.Events, h)
}

func oneOf[T any](w *writer, values ...T) T { return values[w.IntN(len(values))] }

func (w *writer) show(a *actor, ended bool) {
	w.say(happens{Do: doPod, Namespace: a.namespace, Name: a.name, Labels: a.labels, Containers: a.containers, Init: []string{"setup"}, Ended: ended})
}

// change is an event in the cluster between samples.
func (w *writer) change() {
	switch {
	case w.chance(0.03) && !w.kind.perVPA:
		w.vpa()
	case w.chance(0.008) && !w.kind.perVPA && !w.kind.one:
		w.say(happens{Do: doNoVPA, Name: fmt.Sprintf("v%d", w.IntN(4))})
	case w.chance(0.05) && len(w.pods) < 6:
		w.pod()
	case w.chance(0.04) && len(w.pods) > 0 && !w.kind.noEnd:
		i := w.IntN(len(w.pods))
		a := w.pods[i]
		w.say(happens{Do: doNoPod, Namespace: a.namespace, Name: a.name})
		w.pods = slices.Delete(w.pods, i, i+1)
		w.gone = append(w.gone, a)
	case w.chance(0.06) && len(w.pods) > 0 && w.kind.relabel:
		if a := oneOf(w, w.pods...); a.relabels {
			a.labels = w.labels()
			w.show(a, false)
		}
	case w.chance(0.02) && len(w.pods) > 0:
		w.show(oneOf(w, w.pods...), true)
	case w.chance(0.1) && w.kind.collect:
		w.say(happens{Do: doCollect})
	case w.chance(0.02) && w.kind.restart:
		w.say(happens{Do: doRestart})
	}
}

// scrape returns samples of most containers, some of them odd.
func (w *writer) scrape() {
	for _, a := range w.pods {
		for _, c := range a.containers {
			if w.chance(0.1) {
				continue
			}
			h := happens{Do: doCPU, Namespace: a.namespace, Name: a.name, Container: c, Amount: w.amount(a.bases[c][0])}
			h.Later = w.later()
			w.say(h)
			if a.relabels {
				continue
			}
			h.Do, h.Amount = doMemory, w.amount(a.bases[c][1])
			if w.chance(0.1) {
				h.Later = w.later()
			}
			w.say(h)
			if w.chance(0.02) {
				w.say(h) // once more
			}
			if w.chance(0.01) {
				h.Do, h.Amount = doOOM, oneOf(w, 0, h.Amount, w.amount(3e8))
				h.Later = oneOf(w, h.Later, span(-time.Duration(w.IntN(40))*time.Hour), span(-24*time.Hour))
				w.say(h)
			}
		}
		if w.chance(0.02) {
			w.say(happens{Do: oneOf(w, doCPU, doMemory, doOOM), Namespace: a.namespace, Name: a.name, Container: oneOf(w, "setup", "nobody"), Amount: 5e8})
		}
	}
	if w.chance(0.02) {
		w.say(happens{Do: oneOf(w, doCPU, doMemory, doOOM), Name: "nobody", Container: "app", Amount: 5e8})
	}
}

func (w *writer) amount(base int64) int64 {
	switch {
	case w.chance(0.02):
		return 0
	case w.chance(0.02):
		return oneOf[int64](w, -1, -base-1, math.MinInt64)
	case w.chance(0.01):
		return oneOf[int64](w, 1e12, 1e14, 3e14, math.MaxInt64)
	}
	return int64(float64(base) * math.Exp(w.NormFloat64()*0.5))
}

// later is the offset between a sample's timestamp and its arrival.
func (w *writer) later() span {
	switch {
	case w.chance(0.8):
		return 0
	case w.chance(0.5):
		return -span(time.Duration(w.IntN(90)) * time.Second)
	case w.chance(0.5):
		return -span(time.Duration(w.IntN(30*3600)) * time.Second)
	case w.chance(0.8):
		return span(time.Duration(w.IntN(3600)) * time.Second)
	}
	return span(time.Duration(w.IntN(400)) * time.Hour)
}
