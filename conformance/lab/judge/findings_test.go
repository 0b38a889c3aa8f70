package judge

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/workloads"
)

// kindOf is what is counted together.
type kindOf struct {
	step step
	kind string // Refusal.kind
}

func (k kindOf) String() string { return string(k.step) + ": " + k.kind }

// finding is a workload one of whose pods is refused.
type finding struct {
	*workloads.Workload
	judge  cluster // of VPAs: all gates on
	on     cluster
	kindOf kindOf
	number int    // of the workload
	need   string // set by reduce
}

// report logs the numbers, and fails with the smallest cases.
func (c *counts) report(t *testing.T) {
	t.Helper()
	t.Logf("patched %d, evicted or resized %d; not tried: %v; refused by celvpa's own rules: %v", c.patched, c.acts, c.skipped, c.byRules)
	if len(c.found) == 0 {
		return
	}
	t.Logf("refused %d, by gates: %v; evicted for a pod that is refused: %d of %d", c.pods, c.byGates, c.evictedForRefused, c.evicted)
	for _, ranges := range slices.Sorted(maps.Keys(c.tried)) {
		t.Logf("refused %4d of %5d with LimitRanges of %s", c.refused[ranges], c.tried[ranges], ranges)
	}
	order := slices.SortedFunc(maps.Keys(c.found), func(a, b kindOf) int {
		return cmp.Or(cmp.Compare(len(c.found[b]), len(c.found[a])), strings.Compare(a.String(), b.String()))
	})
	var table strings.Builder
	var first, more []finding // of each kind, of each other need
	for _, k := range order {
		fmt.Fprintf(&table, "%6d  %s\n", len(c.found[k]), k)
		needs := c.byNeed(k)
		for i, some := range needs {
			fmt.Fprintf(&table, "%12d of the smallest need %s\n", len(some), some[0].need)
			if i == 0 {
				first = append(first, some[0])
			} else {
				more = append(more, some[0])
			}
		}
	}
	t.Logf("refusals by kind, and what they need:\n%s", &table)
	show := append(first, more...)
	for i, f := range show[:min(len(show), mostShown())] {
		f.shrink()
		t.Errorf("%d: %s; it needs %s; gates: %s; workload %d, shrunk:\n%s", i+1, f.kindOf, f.need, f.on.name, f.number, f.text())
	}
	t.Logf("%d of %d cases are shown; FUZZ_CASES=%d shows all", min(len(show), mostShown()), len(show), len(show))
}

// mostShown is how many cases are shown.
func mostShown() int {
	if n, err := strconv.Atoi(os.Getenv("FUZZ_CASES")); err == nil {
		return n
	}
	return 12
}

// examined is how many workloads of a kind are examined for what they need.
const examined = 20

// byNeed are the smallest workloads of a kind by what they need, the most frequent need first.
func (c *counts) byNeed(k kindOf) [][]finding {
	list := c.found[k]
	bySize := func(a, b finding) int {
		return cmp.Or(cmp.Compare(len(encoded(a.Workload)), len(encoded(b.Workload))), cmp.Compare(a.number, b.number))
	}
	slices.SortFunc(list, bySize)
	needs := map[string][]finding{}
	for _, f := range list[:min(len(list), examined)] {
		f.reduce()
		needs[f.need] = append(needs[f.need], f)
	}
	for _, some := range needs {
		slices.SortFunc(some, bySize)
	}
	return slices.SortedFunc(maps.Values(needs), func(a, b []finding) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a[0].need, b[0].need))
	})
}

// shrink keeps what is needed for a refusal of the same kind.
func (f *finding) shrink() { f.Workload = shrink(f.Workload, f.shows) }

// shows reports whether another workload is refused at the same step, for the same kind of reason.
func (f *finding) shows(w *workloads.Workload) bool {
	ns, why := valid(f.judge, w)
	if why != "" {
		return false
	}
	refused := f.on.judge(ns, w).refused[f.kindOf.step]
	return refused != nil && refused.kind() == f.kindOf.kind
}

// text is the case as YAML, with the pod as it was and as it would be, and what the API server says.
func (f *finding) text() string {
	ns, err := NewNamespace(f.LimitRanges)
	must(err)
	v := f.on.judge(ns, f.Workload)
	after := v.after
	if f.kindOf.step != created {
		after = v.sent
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
	fmt.Fprintf(&out, "# %s\n", v.refused[f.kindOf.step])
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
