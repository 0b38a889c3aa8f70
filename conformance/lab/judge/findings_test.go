package judge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/workloads"
)

// finding is a workload one of whose pods is refused.
type finding struct {
	*workloads.Workload
	judge  cluster // of VPAs: all gates on
	on     cluster
	step   step
	kind   string // Refusal.kind
	number int    // of the workload
}

// shown is how many kinds of refusal a failed test shows in full.
const shown = 12

// report fails with the smallest workload of each kind of refusal, shrunk.
func report(t *testing.T, found []finding) {
	t.Helper()
	for i, some := range byKind(found) {
		if f := some[0]; i < shown {
			f.Workload = shrink(f.Workload, f.shows)
			t.Errorf("%d times: %s: %s; gates: %s; workload %d, shrunk:\n%s", len(some), f.step, f.kind, f.on.name, f.number, f.text())
		} else {
			t.Errorf("%d times: %s: %s; gates: %s; workload %d", len(some), f.step, f.kind, f.on.name, f.number)
		}
	}
}

// byKind are the findings of each step and kind, the most frequent first, and the smallest workload of each first.
func byKind(found []finding) [][]finding {
	kinds := map[string][]finding{}
	for _, f := range found {
		kinds[string(f.step)+f.kind] = append(kinds[string(f.step)+f.kind], f)
	}
	for _, some := range kinds {
		slices.SortFunc(some, func(a, b finding) int {
			return cmp.Or(cmp.Compare(len(encoded(a.Workload)), len(encoded(b.Workload))), cmp.Compare(a.number, b.number))
		})
	}
	return slices.SortedFunc(maps.Values(kinds), func(a, b []finding) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a[0].kind, b[0].kind))
	})
}

// shows reports whether another workload is refused at the same step, for the same kind of reason.
func (f *finding) shows(w *workloads.Workload) bool {
	ns, why := valid(f.judge, w)
	if why != "" {
		return false
	}
	refused := f.on.judge(ns, w).refused[f.step]
	return refused != nil && refused.kind() == f.kind
}

// text is the case as YAML, with the pod as it was and as it would be, and what the API server says.
func (f *finding) text() string {
	ns, err := NewNamespace(f.LimitRanges)
	must(err)
	v := f.on.judge(ns, f.Workload)
	after := v.after
	if f.step != created {
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

func copied(w *workloads.Workload) *workloads.Workload {
	out := &workloads.Workload{VPA: w.VPA.DeepCopy(), Pod: w.Pod.DeepCopy(), Later: w.Later.DeepCopy()}
	for i := range w.LimitRanges {
		out.LimitRanges = append(out.LimitRanges, *w.LimitRanges[i].DeepCopy())
	}
	return out
}

// shrink removes from a workload whatever is not needed to keep a property. It tries each list entry
// and field of the objects, outer ones first.
func shrink(w *workloads.Workload, shows func(*workloads.Workload) bool) *workloads.Workload {
	object := map[string]any{}
	must(json.Unmarshal(encoded(w), &object))
	try := func() bool {
		small := &workloads.Workload{}
		return json.Unmarshal(encoded(object), small) == nil && small.Pod != nil && small.VPA != nil && shows(small)
	}
	for again := true; again; {
		again = remove(object, try)
	}
	out := &workloads.Workload{}
	must(json.Unmarshal(encoded(object), out))
	return out
}

func encoded(v any) []byte {
	out, err := json.Marshal(v)
	must(err)
	return bytes.TrimSpace(out)
}

// remove deletes values below one as long as try allows it, and reports whether it deleted any.
func remove(in map[string]any, try func() bool) (removed bool) {
	for _, key := range slices.Sorted(maps.Keys(in)) {
		if key == "metadata" || key == "targetRef" { // an example without names is no example
			continue
		}
		value := in[key]
		delete(in, key)
		if try() {
			removed = true
			continue
		}
		in[key] = value
		switch value := value.(type) {
		case map[string]any:
			removed = remove(value, try) || removed
		case []any:
			for i := 0; i < len(value); {
				in[key] = slices.Delete(slices.Clone(value), i, i+1)
				if try() {
					value, removed = in[key].([]any), true
					continue
				}
				in[key] = value
				if entry, ok := value[i].(map[string]any); ok {
					removed = remove(entry, try) || removed
				}
				i++
			}
		}
	}
	return removed
}

var (
	rangeBound = regexp.MustCompile(`^(minimum|maximum) (\S+) usage per (\w+) is [^,]*?(?:, but (request|limit) is|\.  No (request|limit) is)`)
	rangeRatio = regexp.MustCompile(`^(\S+) max limit to request ratio per (\w+) is [^,]*, but (no request|no limit|provided ratio)`)
	index      = regexp.MustCompile(`\[[^\]]*\]`)
	amount     = regexp.MustCompile(`"?\d[\w.+]*"?`)
)

// kind is a refusal without names and amounts, so that refusals of one fault are counted together.
func (r *Refusal) kind() string {
	var all []string
	for _, err := range r.Ranges {
		text := err.Error()
		switch bound, ratio := rangeBound.FindStringSubmatch(text), rangeRatio.FindStringSubmatch(text); {
		case bound != nil && bound[4] != "":
			all = append(all, bound[3]+" "+bound[1]+", "+bound[4])
		case bound != nil:
			all = append(all, bound[3]+" "+bound[1]+", no "+bound[5])
		case ratio != nil:
			all = append(all, ratio[2]+" maxLimitRequestRatio, "+ratio[3])
		default:
			all = append(all, text)
		}
	}
	for _, err := range r.Invalid {
		field := strings.NewReplacer(".cpu", "", ".memory", "", "[cpu]", "", "[memory]", "").Replace(err.Field)
		all = append(all, "API: "+index.ReplaceAllString(field, "[]")+": "+amount.ReplaceAllString(err.Detail, "…"))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " + ")
}
