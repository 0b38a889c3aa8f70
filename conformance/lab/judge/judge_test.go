package judge

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/celvpa/celvpa/conformance/workloads"
	"github.com/celvpa/celvpa/controllers/poddefaults"
)

// tries is how many workloads that are valid as written are generated for a seed, with -short a tenth; FUZZ_PODS says another number.
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
	if testing.Short() {
		n /= 10
	}
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
			t.Logf("patched %d, evicted or resized %d; not tried: %v; refused by celvpa's own rules: %v", c.patched, c.acts, c.skipped, c.byRules)
			report(t, c.found)
			require.Greater(t, c.patched, n/2, "too few pods are changed for what they are")
			require.Greater(t, c.acts, n/4, "the updater acts on too few pods")
			require.Zero(t, len(c.found), "of %d valid pods so many are refused", n)
		})
	}
}

// counts is what became of the workloads of a seed.
type counts struct {
	found         []finding
	skipped       map[string]int // why others were not tried
	byRules       map[string]int // pods that celvpa's own rules refuse
	patched, acts int
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
	return &counts{skipped: map[string]int{}, byRules: map[string]int{}}
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
	if _, refused := ns.Create(sent(w.Pod)); refused != nil {
		return nil, "the pod has amounts that its JSON cannot hold"
	}
	if gated.refusal(w) != "" {
		return nil, "its VPA is invalid"
	}
	return ns, ""
}

// sent is a pod as a webhook gets it: the JSON of amounts beyond 64 bits holds the largest that fit.
func sent(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{}
	must(json.Unmarshal(encoded(pod), out))
	return out
}

func (c *counts) judged(judge, on cluster, ns *Namespace, w *workloads.Workload, number int) {
	v := on.judge(ns, w)
	c.acts += v.acts
	if v.patched {
		c.patched++
	}
	if v.refusedByRules != "" {
		c.byRules[v.refusedByRules]++
	}
	for at, refusal := range v.refused {
		c.found = append(c.found, finding{Workload: w, judge: judge, on: on, step: at, kind: refusal.kind(), number: number})
	}
}

func (c *counts) add(o *counts) {
	for why, n := range o.skipped {
		c.skipped[why] += n
	}
	for rule, n := range o.byRules {
		c.byRules[rule] += n
	}
	c.found = append(c.found, o.found...)
	c.patched, c.acts = c.patched+o.patched, c.acts+o.acts
}

// fewer is how many workloads the tests beside TestAValidPodStaysValid try.
const fewer = 4000

// TestNoPodIsEvictedForOneThatIsRefused where LimitRanges are younger than the pod: those of another
// workload, which may contradict each other. The updater waits until somebody changes them.
func TestNoPodIsEvictedForOneThatIsRefused(t *testing.T) {
	all := clusters(t)
	evicted, forRefused := 0, []finding(nil)
	for i := range fewer {
		r := workloads.New(3, uint64(i))
		w := r.Workload()
		alone := copied(w)
		alone.LimitRanges = nil
		before, why := valid(all[0], alone)
		if why != "" {
			continue
		}
		w.LimitRanges = r.Workload().LimitRanges
		after, err := NewNamespace(w.LimitRanges)
		if err != nil {
			continue
		}
		pod, refused := before.Create(w.Pod)
		require.Nil(t, refused)
		c := all[i%len(all)]
		var v verdict
		v.refused = map[step]*Refusal{}
		c.admit(after, w, folded(after), &v)
		if !c.update(after, w, folded(after), pod, resized, &v) {
			continue
		}
		evicted++
		refusal := v.refused[created]
		if refusal == nil && v.refusedByRules == "" {
			continue
		}
		kind := "a rule of celvpa: " + v.refusedByRules
		if refusal != nil {
			kind = refusal.kind()
		}
		forRefused = append(forRefused, finding{Workload: w, on: c, step: created, kind: kind, number: i})
	}
	require.Greater(t, evicted, fewer/8, "too few are evicted to say so")
	for _, some := range byKind(forRefused) {
		t.Errorf("%d of %d evictions are for a pod that is refused: %s; the smallest is workload %d, with %s", len(some), evicted, some[0].kind, some[0].number, some[0].on.name)
	}
}

// TestOfflineCommandsFillInWhatAnAPIServerDoes: package poddefaults gives pods and LimitRanges the
// resources that Kubernetes gives them.
func TestOfflineCommandsFillInWhatAnAPIServerDoes(t *testing.T) {
	filled := 0
	for i := range fewer {
		w := workloads.New(2, uint64(i)).Workload()
		ns, err := NewNamespace(w.LimitRanges)
		if err != nil {
			continue
		}
		var ranges []corev1.LimitRange
		for j := range w.LimitRanges {
			stored := w.LimitRanges[j].DeepCopy()
			poddefaults.LimitRange(stored)
			ranges = append(ranges, *stored)
		}
		requireSame(t, ns.LimitRanges(), ranges, w)
		ours := w.Pod.DeepCopy()
		poddefaults.BeforeWebhooks(ours, ranges)
		requireSame(t, resourcesOf(ns.BeforeWebhooks(w.Pod)), resourcesOf(ours), w)
		stored, refused := ns.Create(w.Pod)
		if refused != nil {
			continue
		}
		ours = w.Pod.DeepCopy()
		poddefaults.Create(ours, ranges)
		requireSame(t, resourcesOf(stored), resourcesOf(ours), w)
		if !equality.Semantic.DeepEqual(resourcesOf(w.Pod), resourcesOf(ours)) {
			filled++
		}
	}
	require.Greater(t, filled, fewer/3, "too few are completed to say so")
}

func requireSame(t *testing.T, want, got any, w *workloads.Workload) {
	t.Helper()
	if !equality.Semantic.DeepEqual(want, got) {
		require.JSONEq(t, string(encoded(want)), string(encoded(got)), "of %s", encoded(w))
	}
}
