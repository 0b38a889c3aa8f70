package judge

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/workloads"
)

// tries is how many workloads that are valid as written are generated for a seed; FUZZ_PODS says
// another number.
const tries = 20_000

// seeds are always the same one, so that a change is judged by what it changed. LONG=1 adds three new
// ones; FUZZ_SEED tries one alone.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	if text := os.Getenv("FUZZ_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "FUZZ_SEED")
		return []uint64{seed}
	}
	out := []uint64{1}
	if os.Getenv("LONG") != "" {
		for i := range uint64(3) {
			out = append(out, uint64(time.Now().UnixNano())+i)
		}
	}
	return out
}

// TestAValidPodStaysValid: what Kubernetes accepts as written, it accepts as celvpa patches it, and as
// the updater resizes it.
func TestAValidPodStaysValid(t *testing.T) {
	n := tries
	if text := os.Getenv("FUZZ_PODS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err, "FUZZ_PODS")
	}
	all := clusters(t)
	for _, seed := range seeds(t) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Logf("FUZZ_SEED=%d does this run again", seed)
			begin := time.Now()
			c := tryAll(all, seed, n)
			t.Logf("%d valid pods in %s", n, time.Since(begin).Round(100*time.Millisecond))
			c.report(t)
			require.Greater(t, c.patched, n/2, "too few pods are changed for what they are")
			require.Greater(t, c.acts, n/4, "the updater acts on too few pods")
			require.Zero(t, c.pods, "of %d valid pods so many are refused, in %d kinds", n, len(c.kinds))
		})
	}
}

// finding is a workload one of whose pods is refused.
type finding struct {
	*workloads.Workload
	judge  cluster // of VPAs: all gates on
	on     cluster
	step   step
	number int // of the workload
	size   int
}

// kindOf is what is counted together: a refusal, and the features of the workload without which there
// is none.
type kindOf struct {
	step step
	kind string
	need string
}

func (k kindOf) String() string { return fmt.Sprintf("%s: %s, with %s", k.step, k.kind, k.need) }

// counts is what became of the workloads of a seed.
type counts struct {
	kinds    map[kindOf]int
	smallest map[kindOf]finding
	byGates  map[string]int
	skipped  map[string]int // why others were not tried

	pods, patched, acts, evicted, evictedForRefused int
	byRules                                         map[string]int
}

func tryAll(all []cluster, seed uint64, n int) *counts {
	total := newCounts()
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			c := newCounts()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				c.try(all, seed, i)
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(c)
		})
	}
	workers.Wait()
	return total
}

func newCounts() *counts {
	return &counts{kinds: map[kindOf]int{}, smallest: map[kindOf]finding{}, byGates: map[string]int{}, skipped: map[string]int{}, byRules: map[string]int{}}
}

// try judges one workload, the first of its number that is valid as written.
func (c *counts) try(all []cluster, seed uint64, number int) {
	r := workloads.New(seed, uint64(number))
	for {
		w := r.Workload()
		ns, why := valid(all[0], w)
		if why != "" {
			c.skipped[why]++
			continue
		}
		c.judged(all[0], all[number%len(all)], ns, w, number)
		return
	}
}

// valid is the namespace of a workload, or why the workload cannot exist. A VPA is judged with all
// gates on: off, they may have been switched off later.
func valid(gated cluster, w *workloads.Workload) (*Namespace, string) {
	ns, err := NewNamespace(w.LimitRanges)
	if err != nil {
		return nil, "its LimitRange is invalid"
	}
	if _, refused := ns.Create(w.Pod); refused != nil && refused.Ranges != nil {
		return nil, "its LimitRanges refuse the pod as written"
	} else if refused != nil {
		return nil, "the pod is invalid as written"
	}
	if gated.refusal(w) != "" {
		return nil, "its VPA is invalid"
	}
	return ns, ""
}

func (c *counts) judged(judge, on cluster, ns *Namespace, w *workloads.Workload, number int) {
	v := on.judge(ns, w)
	c.acts += v.acts
	if v.patched {
		c.patched++
	}
	if v.evicted {
		c.evicted++
	}
	if v.refusedByRules != "" {
		c.byRules[v.refusedByRules]++
	}
	if len(v.refused) == 0 {
		return
	}
	c.pods++
	c.byGates[on.name]++
	if v.evicted && v.refused[created] != nil {
		c.evictedForRefused++
	}
	for at, refusal := range v.refused {
		f := finding{Workload: w, judge: judge, on: on, step: at, number: number}
		k := kindOf{at, refusal.kind(), f.needs(refusal.kind())}
		f.size = len(encoded(f.Workload))
		c.kinds[k]++
		c.keep(k, f)
	}
}

func (c *counts) keep(k kindOf, f finding) {
	if best, there := c.smallest[k]; !there || cmp.Or(cmp.Compare(f.size, best.size), cmp.Compare(f.number, best.number)) < 0 {
		c.smallest[k] = f
	}
}

func (c *counts) add(o *counts) {
	sum := func(into, of map[string]int) {
		for key, n := range of {
			into[key] += n
		}
	}
	sum(c.byGates, o.byGates)
	sum(c.skipped, o.skipped)
	sum(c.byRules, o.byRules)
	for k, n := range o.kinds {
		c.kinds[k] += n
		c.keep(k, o.smallest[k])
	}
	c.pods, c.patched, c.acts = c.pods+o.pods, c.patched+o.patched, c.acts+o.acts
	c.evicted, c.evictedForRefused = c.evicted+o.evicted, c.evictedForRefused+o.evictedForRefused
}

// report logs the numbers, and fails with the smallest case of each kind.
func (c *counts) report(t *testing.T) {
	t.Helper()
	t.Logf("patched %d, evicted or resized %d; not tried: %v; refused by celvpa's own rules: %v", c.patched, c.acts, c.skipped, c.byRules)
	if len(c.kinds) == 0 {
		return
	}
	t.Logf("refused %d, by gates: %v; evicted for a pod that is refused: %d of %d", c.pods, c.byGates, c.evictedForRefused, c.evicted)
	order := slices.SortedFunc(maps.Keys(c.kinds), func(a, b kindOf) int {
		return cmp.Or(cmp.Compare(c.kinds[b], c.kinds[a]), strings.Compare(a.String(), b.String()))
	})
	var table strings.Builder
	for _, k := range order {
		fmt.Fprintf(&table, "%6d  %s\n", c.kinds[k], k)
	}
	t.Logf("refusals by kind:\n%s", &table)
	for i, k := range order {
		if i == mostShown() {
			t.Logf("%d more kinds; FUZZ_KINDS=%d shows all", len(order)-i, len(order))
			break
		}
		f := c.smallest[k]
		f.shrink(k.kind)
		t.Errorf("%s (%d times); gates: %s; workload %d, shrunk:\n%s", k, c.kinds[k], f.on.name, f.number, f.text())
	}
}

// mostShown is of how many kinds a case is shown.
func mostShown() int {
	if n, err := strconv.Atoi(os.Getenv("FUZZ_KINDS")); err == nil {
		return n
	}
	return 12
}

// shrink keeps what is needed for a refusal of the same kind.
func (f *finding) shrink(kind string) {
	f.Workload = shrink(f.Workload, func(w *workloads.Workload) bool { return f.shows(w, kind) })
}

// shows reports whether another workload is refused at the same step, for the same kind of reason.
func (f *finding) shows(w *workloads.Workload, kind string) bool {
	ns, why := valid(f.judge, w)
	if why != "" {
		return false
	}
	refused := f.on.judge(ns, w).refused[f.step]
	return refused != nil && refused.kind() == kind
}

// text is the case as YAML, with the pod as it was and as it would be, and what the API server says.
func (f *finding) text() string {
	ns, err := NewNamespace(f.LimitRanges)
	must(err)
	v := f.on.judge(ns, f.Workload)
	after := v.after
	if f.step != created {
		after = v.resizedTo
	}
	var out bytes.Buffer
	part := func(title string, value any) {
		text, err := yaml.Marshal(value)
		must(err)
		fmt.Fprintf(&out, "# %s\n%s---\n", title, text)
	}
	part("the workload", f.Workload)
	part("the pod as stored without celvpa", resourcesOf(v.before))
	part("and as celvpa makes it", resourcesOf(after))
	fmt.Fprintf(&out, "# %s\n", v.refused[f.step])
	return out.String()
}

// resourcesOf are a pod's resources alone.
func resourcesOf(pod *corev1.Pod) map[string]any {
	out := map[string]any{}
	if pod == nil {
		return out
	}
	if pod.Spec.Resources != nil {
		out["pod"] = pod.Spec.Resources
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			out[list[i].Name] = list[i].Resources
		}
	}
	if text := pod.Annotations["vpaUpdates"]; text != "" {
		out["vpaUpdates"] = text
	}
	return out
}
