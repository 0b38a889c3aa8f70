package recommender

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/engine"
)

// What bounds an answer.
const (
	explainTimeout = 5 * time.Second
	maxContainers  = 500
	maxWindows     = 100  // of a container
	maxAllWindows  = 1000 // of all containers
)

// percentiles are reported for every container, besides those that its rules use.
var percentiles = []float64{0.5, 0.9, 0.95, 0.99, 1}

// Explain says what is known about a VPA, and what the rules make of it now. It is safe for
// concurrent use, and hardly holds up a cycle. During one, it waits for a step of the cycle to end,
// for five seconds at most.
func (r *Recommender) Explain(ctx context.Context, namespace, name string) (out answers.Recommender, err error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r.Log.Error(fmt.Errorf("panic: %v", p), "panic while explaining a recommendation; please report this",
				"namespace", namespace, "vpa", name, "stack", string(debug.Stack()))
			out, err = answers.Recommender{}, fmt.Errorf("explaining VPA %s/%s failed: %v; please report this, the log has the details", namespace, name, p)
		}
	}()
	var x *snapshot
	err = r.reading(ctx, func() {
		if !r.lastCycle.IsZero() {
			at := r.lastCycle
			out.LastCycle = &at
		}
		if w := r.workloads[model.WorkloadID{Namespace: namespace, Name: name}]; w != nil {
			x = r.snapshot(w, r.Clock.Now())
			x.frozen = cmp.Or(x.frozen, r.unready(w))
		}
	})
	if err != nil || x == nil {
		return out, err
	}
	out.Decisions = r.Decisions.Of(types.NamespacedName{Namespace: namespace, Name: name})
	err = x.describe(ctx, &out, r.Clock.Now(), max(r.Interval, time.Minute))
	return out, err
}

// ExplainAlone is Explain for a State that no recommender runs. step is the time between samples.
func (s *State) ExplainAlone(ctx context.Context, w *Workload, now time.Time, step time.Duration) (out answers.Recommender, err error) {
	err = s.snapshot(w, now).describe(ctx, &out, now, step)
	return out, err
}

// unready says why the recommender leaves a VPA alone for now; empty = it does not.
func (r *Recommender) unready(w *Workload) string {
	switch {
	case !r.loaded:
		return "usage from before the start of the recommender is not loaded yet"
	case !r.sampled && hasRecommendation(w.VPA.Status.Recommendation):
		return "the source of usage has not answered since the start of the recommender"
	}
	return ""
}

// describe fills in what follows from the snapshot, for samples that come at every step.
func (x *snapshot) describe(ctx context.Context, out *answers.Recommender, now time.Time, step time.Duration) error {
	out.Known, out.Rules, out.Problem, out.Frozen, out.Pods = true, policy.DescribeRules(x.chosen), x.problem, x.frozen, x.view.Pods
	result := x.recommend()
	out.Recommendation = x.vpa.Status.Recommendation
	if x.frozen == "" {
		out.Recommendation = result.keep(out.Recommendation)
	}
	all := ways(x.vpa, x.view, result.Explained, x.of)
	if n := len(all); n > 0 && all[n-1].container == "" {
		out.PodSteps, all = all[n-1].recommended, all[:n-1]
	}
	for name := range x.ooms { // of containers without usage, too, such as init containers
		if _, known := x.effective[name]; !known {
			all = append(all, way{container: name})
		}
	}
	slices.SortFunc(all, func(a, b way) int { return strings.Compare(a.container, b.container) })
	out.ContainersCut = max(0, len(all)-maxContainers)
	predict := x.frozen == "" && !x.view.PodCPU && !x.view.PodMemory // the bounds of a pod change targets of its containers
	windows := maxAllWindows
	for _, w := range all[:len(all)-out.ContainersCut] {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("explaining VPA %s/%s was not done in time: %w", x.vpa.Namespace, x.vpa.Name, err)
		}
		asked, scaled := result.askedOf(w.container)
		container := x.container(w, asked, now, min(windows, maxWindows))
		if predict && scaled {
			x.predict(&container, result.scaled(), now, step)
		}
		windows -= len(container.Windows)
		out.Containers = append(out.Containers, container)
	}
	return nil
}

// askedOf are the percentiles that rules looked at for a container, if it is scaled.
func (r *Result) askedOf(container string) (of asked, scaled bool) {
	for _, e := range r.Explained {
		if e.Container == container && e.asked != nil {
			return *e.asked, true
		}
	}
	return asked{}, false
}

// scaled counts the containers that are scaled, of a result with traces.
func (r *Result) scaled() (n int) {
	for _, e := range r.Explained {
		if e.asked != nil {
			n++
		}
	}
	return n
}

// container is what is known of a container, with a number of its open windows at most.
func (x *snapshot) container(w way, asked asked, now time.Time, windows int) answers.Container {
	out := answers.Container{Name: w.container, OOMs: x.ooms[w.container], Steps: slices.Concat(w.selected, w.recommended)}
	live := x.live[w.container]
	out.Windows, out.WindowsCut = open(live, now, windows)
	out.CPU.Last, out.Memory.Last = newest(live)
	u, known := x.usage(w.container)
	if !known {
		return out
	}
	out.Present, out.Samples, out.MemorySamples, out.Restored = u.Present, u.Samples, u.MemorySamples, u.Restored
	out.FirstSample, out.LastSample = unlessZero(u.FirstSample), unlessZero(u.LastSample)
	seen := estimateOf(u, 1)
	if !u.CPU.IsEmpty() {
		out.CPU.Percentiles = tabulate(seen.CPU, asked.cpu, usedOf(w.recommended, asked.cpu, "cpu"), milliCPU)
	}
	if !u.Memory.IsEmpty() {
		out.Memory.Percentiles = tabulate(seen.Memory, asked.memory, usedOf(w.recommended, asked.memory, "memory"), memory)
	}
	return out
}

// usedOf reports of a percentile whether the rule that set a target first read it.
func usedOf(steps []engine.Step, asked lookups, resource string) func(fraction float64) bool {
	first := slices.IndexFunc(steps, func(s engine.Step) bool { return s.Item == ofTarget && s.Field == "now."+resource })
	fraction, ok := asked.before[first]
	return func(p float64) bool { return ok && p == fraction }
}

// tabulate lists the usual percentiles and those that rules looked at.
func tabulate(h facts.Histogram, asked lookups, used func(fraction float64) bool, render func(int64) string) (out []answers.Percentile) {
	fractions := slices.Concat(percentiles, slices.Collect(maps.Keys(asked.amounts)))
	slices.Sort(fractions)
	for _, p := range slices.Compact(fractions) {
		out = append(out, answers.Percentile{Percent: percent(p), Amount: render(h.Percentile(p)), Used: used(p)})
	}
	return out
}

// percent renders a fraction, such as 0.9 as 90.
func percent(fraction float64) string {
	return strconv.FormatFloat(math.Round(fraction*1e8)/1e6, 'f', -1, 64)
}

// open lists open memory windows, largest peak first, and counts those beyond a number.
func open(live []model.Live, now time.Time, most int) (out []answers.Window, cut int) {
	windows := slices.DeleteFunc(slices.Clone(live), func(l model.Live) bool { return !l.Open(now) })
	slices.SortFunc(windows, func(a, b model.Live) int {
		return cmp.Or(cmp.Compare(b.Peak, a.Peak), strings.Compare(a.Pod, b.Pod))
	})
	cut = max(0, len(windows)-most)
	for _, l := range windows[:len(windows)-cut] {
		out = append(out, answers.Window{Pod: l.Pod, Peak: memory(l.Peak), Ends: l.Ends})
	}
	return out, cut
}

// newest are the newest CPU sample and the peak of the window with the newest memory sample, the
// largest of several; empty if there is none.
func newest(live []model.Live) (ofCPU, ofMemory string) {
	var cpuAt, memoryAt time.Time
	var milli, bytes int64
	for _, l := range live {
		if c := l.CPUAt.Compare(cpuAt); c > 0 || (c == 0 && l.CPU > milli) {
			cpuAt, milli = l.CPUAt, l.CPU
		}
		if c := l.MemoryAt.Compare(memoryAt); c > 0 || (c == 0 && l.Memory > bytes) {
			memoryAt, bytes = l.MemoryAt, l.Memory
		}
	}
	if !cpuAt.IsZero() {
		ofCPU = milliCPU(milli)
	}
	if !memoryAt.IsZero() {
		ofMemory = memory(bytes)
	}
	return ofCPU, ofMemory
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// milliCPU renders milli-cores, and memory bytes, as recommendations have them.
func milliCPU(milli int64) string {
	q := facts.CPUQuantity(milli)
	return q.String()
}

func memory(bytes int64) string {
	q := facts.MemoryQuantity(bytes)
	return q.String()
}
