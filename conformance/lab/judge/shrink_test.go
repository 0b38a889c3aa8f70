package judge

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/conformance/workloads"
)

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
