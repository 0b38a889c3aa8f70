package facts

import (
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/engine"
)

// Change is a field of an object that rules set or unset.
type Change struct {
	Path  []string // keys, and indexes of lists
	Value any      // as JSON holds it; nil = the field goes away
}

// Defaults runs vpa.default on an object, as JSON holds it, and returns what rules changed, in the order of the points'
// fields. What does not have the type that the schema gives it is taken for absent.
func Defaults(plan *engine.Plan, object map[string]any, trace *engine.Trace) ([]Change, []*engine.RuleError) {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return nil, nil // the schema refuses it
	}
	facts := vpaDefault.NewFacts()
	root := boundFields{path: []string{"spec", "updatePolicy"}, record: defaultsSchema.New()}
	updatePolicy, _ := spec["updatePolicy"].(map[string]any)
	bindFields(root.record, updatePolicy)
	facts.Set("vpa", root.record)
	bound := []boundFields{root}
	resourcePolicy, _ := spec["resourcePolicy"].(map[string]any)
	policies, _ := resourcePolicy["containerPolicies"].([]any)
	for i := range policies {
		policy, ok := policies[i].(map[string]any)
		if !ok {
			continue // likewise
		}
		name, _ := policy["containerName"].(string)
		one := boundFields{path: []string{"spec", "resourcePolicy", "containerPolicies", strconv.Itoa(i)}, record: policyDefaultsSchema.New()}
		bindFields(one.record, policy)
		facts.AddItem("containerPolicy", name).Set("container", engine.Text(name)).Set("policy", one.record)
		bound = append(bound, one)
	}
	for i := range bound {
		bound[i].before = bound[i].record.Copy()
	}
	failed := plan.RunStages(VPADefault, facts, trace)
	var out []Change
	for _, b := range bound {
		out = append(out, changes(b.path, b.before, b.record)...)
	}
	return out, failed
}

// boundFields is a record that stands for a part of an object.
type boundFields struct {
	path           []string
	record, before *engine.Record
}

// bindFields gives a record the fields that a part of an object has.
func bindFields(r *engine.Record, part map[string]any) {
	for _, f := range r.Schema().Fields() {
		value, given := part[f.Name]
		if !given || value == nil {
			continue
		}
		if f.Type.IsOpaque() {
			r.SetOpaque(f.Name, JSON{value})
			continue
		}
		switch v := value.(type) {
		case string:
			if f.Type == engine.String {
				r.SetString(f.Name, v)
			}
		case int64:
			if f.Type == engine.Int {
				r.SetInt(f.Name, v)
			}
		case map[string]any:
			if f.Type == engine.RecordOf(resourcesSchema) {
				r.SetRecord(f.Name, resourcesOf(v))
			}
		}
	}
}

func resourcesOf(list map[string]any) *engine.Record {
	r := resourcesSchema.New()
	amount := func(name string, of func(resource.Quantity) int64) {
		text, ok := list[name].(string)
		if n, isNumber := list[name].(int64); isNumber {
			text, ok = strconv.FormatInt(n, 10), true
		}
		if q, err := quantity.Parse(text); ok && err == nil {
			r.SetInt(name, of(q))
		}
	}
	amount("cpu", MilliCPU)
	amount("memory", Bytes)
	return r
}

// changes lists the fields that differ.
func changes(path []string, before, after *engine.Record) []Change {
	var out []Change
	for _, f := range after.Schema().Fields() {
		at := append(append([]string{}, path...), f.Name)
		was, is := before.Field(f.Name), after.Field(f.Name)
		nested, isRecord := is.(*engine.Record)
		switch {
		case isRecord:
			old, ok := was.(*engine.Record)
			if !ok {
				old = resourcesSchema.New()
			}
			out = append(out, changes(at, old, nested)...)
		case is == nil && was != nil:
			out = append(out, Change{Path: at})
		case is != nil && (was == nil || was.Equal(is) != types.True):
			out = append(out, Change{Path: at, Value: plainOf(f, is)})
		}
	}
	return out
}

// plainOf is a value as JSON holds it.
func plainOf(f engine.Field, v ref.Val) any {
	if part, ok := v.(JSON); ok {
		return part.Of
	}
	if n, ok := v.Value().(int64); ok {
		switch f.Type {
		case engine.IntOf(CPU):
			q := CPUQuantity(n)
			return q.String()
		case engine.IntOf(Memory):
			q := MemoryQuantity(n)
			return q.String()
		}
		return n
	}
	return v.Value()
}
