package upstream

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
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

// vpa creates or changes a VPA.
func (w *writer) vpa() {
	h := happens{Do: doVPA, Name: fmt.Sprintf("v%d", w.IntN(4)), Age: w.IntN(5)}
	switch {
	case w.kind.one:
		h.Name, h.Selector = "v0", "app=a"
	case w.kind.perVPA:
		h.Name = oneOf(w, "va", "vb")
		h.Selector = "app=" + h.Name[1:]
		if w.vpas[h.Name] {
			return
		}
	default:
		h.Selector = oneOf(w, "app=a", "app=b", "app in (a,b)", "tier=web", "", "app=a,tier=web", "!nothing", "app!=a")
		if w.chance(0.15) {
			h.Namespace = "other"
		}
	}
	h.Age = len(h.Selector)*7 + int(h.Name[len(h.Name)-1]) // as long as there is a VPA, it is as old as it is
	w.vpas[h.Name] = true
	for _, name := range []string{"app", "*", "sidecar", "agent"} {
		if w.chance(0.4) {
			h.Policies = append(h.Policies, w.policy(name))
		}
	}
	w.Shuffle(len(h.Policies), func(i, j int) { h.Policies[i], h.Policies[j] = h.Policies[j], h.Policies[i] })
	if w.chance(0.3) {
		h.Whole = append(h.Whole, oneOf(w, "app", "sidecar"))
	}
	w.say(h)
}

func (w *writer) policy(name string) upstreamv1.ContainerResourcePolicy {
	p := upstreamv1.ContainerResourcePolicy{ContainerName: name}
	if w.chance(0.3) {
		mode := oneOf(w, upstreamv1.ContainerScalingModeAuto, upstreamv1.ContainerScalingModeOff)
		p.Mode = &mode
	}
	list := func() corev1.ResourceList {
		out := corev1.ResourceList{}
		if w.chance(0.7) {
			out[corev1.ResourceCPU] = resource.MustParse(oneOf(w, "0", "10m", "0.126", "500m", "1", "2500m", "1k"))
		}
		if w.chance(0.7) {
			out[corev1.ResourceMemory] = resource.MustParse(oneOf(w, "0", "1", "64Mi", "250Mi", "1G", "1.5Gi", "1e9", "2Ti"))
		}
		return out
	}
	if w.chance(0.4) {
		p.MinAllowed = list()
	}
	if w.chance(0.4) {
		p.MaxAllowed = list()
	}
	if w.chance(0.2) {
		p.ControlledResources = &[][]corev1.ResourceName{{}, {"cpu"}, {"memory"}, {"memory", "cpu"}, {"cpu", "nvidia.com/gpu"}}[w.IntN(5)]
	}
	if w.kind.perVPA {
		w.remembering(&p)
	}
	return p
}

// remembering are the fields of AEP-8026. celvpa gives a ratio of 1 with no bump another meaning,
// so it is left out.
func (w *writer) remembering(p *upstreamv1.ContainerResourcePolicy) {
	quantity := func(text string) *resource.Quantity {
		q := resource.MustParse(text)
		return &q
	}
	if w.chance(0.5) {
		p.OOMBumpUpRatio = quantity(oneOf(w, "1.1", "1.234", "2", "1500m"))
	}
	if w.chance(0.5) {
		p.OOMMinBumpUp = quantity(oneOf(w, "0", "1Mi", "500Mi", "12345678"))
	}
	if w.chance(0.5) {
		p.MemoryAggregationIntervalSeconds = new(oneOf[int32](w, 60, 3600, 86400, 100000))
	}
	if w.chance(0.5) {
		p.MemoryAggregationIntervalCount = new(oneOf[int64](w, 1, 2, 8, 1000))
	}
}

// pod creates a pod, sometimes as the replacement of a deleted one.
func (w *writer) pod() {
	a := &actor{name: fmt.Sprintf("p%d", w.made), bases: map[string][2]int64{}}
	w.made++
	a.labels = w.labels()
	a.relabels = w.kind.relabel && w.chance(0.5)
	if !w.kind.one && !w.kind.perVPA && w.chance(0.15) {
		a.namespace = "other"
	}
	for _, c := range []string{"app", "sidecar", "agent"} {
		if c == "app" || w.chance(0.3) {
			a.containers = append(a.containers, c)
		}
	}
	if len(w.gone) > 0 && w.chance(0.3) {
		a.namespace, a.name = w.gone[0].namespace, w.gone[0].name
		w.gone = w.gone[1:]
	}
	for _, c := range a.containers {
		a.bases[c] = [2]int64{oneOf[int64](w, 0, 3, 50, 300, 2000, 64000), oneOf[int64](w, 0, 1e6, 5e7, 262144000, 2e9, 5e11)}
	}
	w.pods = append(w.pods, a)
	w.show(a, false)
}

func (w *writer) labels() map[string]string {
	if w.kind.one {
		return map[string]string{"app": "a"}
	}
	out := map[string]string{"app": oneOf(w, "a", "b")}
	if w.chance(0.5) {
		out["hash"] = oneOf(w, "1", "2", "3")
	}
	if w.chance(0.3) {
		out["tier"] = "web"
	}
	return out
}
