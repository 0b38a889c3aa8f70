package admission

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// Random generates objects from a schema, reproducibly by seed. It favours what rules check:
// bounds, near misses, and fields that exclude each other.
type Random struct {
	*rand.Rand
	root *structural.Structural
	full float64 // probability of an optional field
	odd  float64 // probability of a value that violates the schema
}

// Random returns a generator; the same seed gives the same objects.
func (s *APIServer) Random(seed uint64) *Random {
	r := &Random{Rand: rand.New(rand.NewPCG(seed, 1)), root: s.root}
	r.full = []float64{0.1, 0.25, 0.5, 0.8}[r.IntN(4)]
	r.odd = []float64{0, 0, 0, 0.02, 0.1}[r.IntN(5)]
	return r
}

func (r *Random) chance(p float64) bool { return r.Float64() < p }

// sorted makes a seed reproducible.
func sorted(fields map[string]structural.Structural) []string {
	return slices.Sorted(maps.Keys(fields))
}

func pick[T any](r *Random, from ...T) T { return from[r.IntN(len(from))] }

// Object returns a new object.
func (r *Random) Object() map[string]any {
	spec := r.root.Properties["spec"]
	return map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
		"metadata": map[string]any{"name": "web", "namespace": "shop"},
		"spec":     r.value("spec", &spec),
	}
}

// Changed returns a changed copy, mostly the same so that old faults persist.
func (r *Random) Changed(object map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(object)
	for range r.IntN(4) {
		r.change(out, r.root)
	}
	if r.chance(0.3) {
		out["metadata"].(map[string]any)["labels"] = map[string]any{"tier": pick[any](r, "web", "db")}
	}
	return out
}

// change regenerates one value below spec.
func (r *Random) change(object map[string]any, schema *structural.Structural) {
	name := "spec"
	if schema != r.root {
		names := sorted(schema.Properties)
		if len(names) == 0 {
			return
		}
		name = pick(r, names...)
	}
	field := schema.Properties[name]
	switch below := object[name].(type) {
	case map[string]any:
		if len(field.Properties) > 0 && (name == "spec" || r.chance(0.8)) {
			r.change(below, &field)
			return
		}
	case []any:
		if i := r.IntN(len(below) + 1); i < len(below) && r.chance(0.8) {
			r.changeEntry(object, name, i, &field)
			return
		}
	}
	if name != "spec" && r.chance(0.3) {
		delete(object, name)
		return
	}
	object[name] = r.value(name, &field)
}

func (r *Random) changeEntry(object map[string]any, name string, i int, field *structural.Structural) {
	list := object[name].([]any)
	entry, isMap := list[i].(map[string]any)
	switch {
	case isMap && r.chance(0.6):
		r.change(entry, field.Items)
	case r.chance(0.3):
		object[name] = append(list, runtime.DeepCopyJSONValue(list[i]))
	case r.chance(0.3):
		object[name] = append(list[:i:i], list[i+1:]...)
	case r.chance(0.5):
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	default:
		list[i] = r.value(name, field.Items)
	}
}

func (r *Random) value(name string, s *structural.Structural) any {
	if r.chance(r.odd) {
		return pick[any](r, nil, "", "no", int64(-1), 1.5, true, map[string]any{}, []any{})
	}
	if s.ValueValidation != nil && len(s.ValueValidation.Enum) > 0 {
		return pick(r, s.ValueValidation.Enum...).Object
	}
	switch {
	case s.XIntOrString:
		return r.quantity()
	case s.Type == "integer":
		return pick[any](r, int64(1), int64(1), int64(2), int64(60), int64(43200), int64(0), int64(-1), int64(math.MaxInt32), int64(math.MinInt32))
	case s.Type == "number":
		return pick[any](r, int64(1), int64(2), 1.0, 1.2, 0.999999, int64(0), -1.5, 1e300)
	case s.Type == "array":
		out := []any{}
		for range pick(r, 0, 1, 1, 2, 2, 3, 4) {
			out = append(out, r.value(name, s.Items))
		}
		return out
	case s.Type == "object":
		return r.object(s)
	}
	switch name {
	case "containerName":
		return pick[any](r, "app", "sidecar", "*", "init", "app", "")
	case "resources", "controlledResources":
		return pick[any](r, "cpu", "memory", "cpu", "memory", "storage")
	case "memoryAggregationInterval":
		return pick[any](r, "12h", "24h", "43200s", "1m", "0s", "1.5h", "90m30s", "60000ms", "500us", "1µs", "1d", "12", "-1h", "h", "1h ", "999999999h")
	}
	return pick[any](r, "web", "Deployment", "apps/v1", "")
}

func (r *Random) object(s *structural.Structural) map[string]any {
	out := map[string]any{}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		for _, resource := range []string{"cpu", "memory", "nvidia.com/gpu", "ephemeral-storage"} {
			if r.chance(r.full) {
				out[resource] = r.value(resource, s.AdditionalProperties.Structural)
			}
		}
		return out
	}
	required := map[string]bool{}
	if s.ValueValidation != nil {
		for _, name := range s.ValueValidation.Required {
			required[name] = true
		}
	}
	for _, name := range sorted(s.Properties) {
		field := s.Properties[name]
		likely := r.full
		switch name {
		case "containerName", "targetRef", "updateMode", "type":
			likely = 0.9
		case "resourcePolicy", "containerPolicies", "updatePolicy":
			likely = max(r.full, 0.6)
		}
		if r.chance(likely) || (required[name] && !r.chance(r.odd)) {
			out[name] = r.value(name, &field)
		}
	}
	return out
}

// quantities are similar amounts in many spellings, and some near misses.
var quantities = []any{
	int64(0), "0", "0.0", "1m", "250m", "0.25", "999m", int64(1), "1", "1000m", "1.0", "1e0", "+1", "1.5", "2", "1k", "1Ki", "1024", "100Mi", "104857600", "1Gi", "1G",
	"1e9", "1E3", "-1", int64(-1), "-0", "1n", "1500u", "0.0001", "9223372036854775807", "9223372036854775808", "1e30", "1Ei", ".5", "5.", int64(math.MaxInt64),
}

// nearlyQuantities match the pattern of upstream's schema but are invalid.
var nearlyQuantities = []any{"1e1.5", "1e5."}

var noQuantities = []any{"", "one", "1 Gi", "1ki", "1e1.5", "1e9999", "1e5.", "Gi", "1e", "0x10", "1,5", " 1", "--1"}

func (r *Random) quantity() any {
	switch {
	case r.chance(r.odd):
		return pick(r, noQuantities...)
	case r.chance(0.02):
		return pick(r, nearlyQuantities...)
	}
	return pick(r, quantities...)
}
