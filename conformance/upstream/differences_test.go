package upstream

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
)

// difference is a deliberate difference between celvpa's answers and upstream's. Its name is a
// heading of the table in docs/upstream-differences.md.
type difference struct {
	name    string
	why     string
	example string // a case in YAML that differs in this and in nothing else
	// explains reports whether this difference causes a discrepancy. It examines the case, not only
	// celvpa's answer.
	explains func(o outcome, d discrepancy) bool
}

const (
	pathMode         = "spec.updatePolicy.updateMode"
	pathRequirements = "spec.updatePolicy.evictionRequirements"
	pathPolicies     = "spec.resourcePolicy.containerPolicies"
)

// inDots matches map keys, which schema errors write like fields: maxAllowed.cpu.
var inDots = regexp.MustCompile(`\[([^\]0-9][^\]]*)\]`)

// keyOf is the map key that ends a path. If a quantity in bounds cannot be decoded, the error is
// about the whole map.
var keyOf = regexp.MustCompile(`\[[^\]]*\]$`)

var deliberate = []difference{
	{
		name:    "one policy per container",
		why:     "Of two policies for a container only one is heeded, and which one is not to be seen.",
		example: `object: {spec: {updatePolicy: {updateMode: "Off"}, resourcePolicy: {containerPolicies: [{containerName: a}, {containerName: a}]}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return d.Kind == refuses && strings.HasPrefix(d.Path, pathPolicies) && hasDuplicateNames(o.Case.Object) &&
				(d.Path == pathPolicies || strings.HasSuffix(d.Path, "].containerName") || strings.HasSuffix(d.Path, "]"))
		},
	},
	{
		name:    "eviction requirements that can hold",
		why:     "A requirement that no recommendation can fulfil stops all updates without saying so.",
		example: `object: {spec: {updatePolicy: {updateMode: Recreate, evictionRequirements: [{resources: [], changeRequirement: TargetHigherThanRequests}]}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return d.Kind == refuses && strings.HasPrefix(d.Path, pathRequirements) && neverEvicts(o.Case.Object)
		},
	},
	{
		name:    "no negative boost duration",
		why:     "A boost cannot end before it begins.",
		example: `{gates: {CPUStartupBoost: true}, object: {spec: {updatePolicy: {updateMode: "Off"}, startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: -1}}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return d.Kind == refuses && strings.HasSuffix(d.Path, "startupBoost.cpu.durationSeconds") && isBelowZero(get(o.Case.Object, d.Path))
		},
	},
	{
		name:    "no negative boost quantity",
		why:     "The quantity is added to what a container asks for; less than nothing is no boost.",
		example: `{gates: {CPUStartupBoost: true}, object: {spec: {updatePolicy: {updateMode: "Off"}, startupBoost: {cpu: {type: Quantity, quantity: "-1"}}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			q, ok := quantityAt(o.Case.Object, d.Path)
			return d.Kind == refuses && strings.HasSuffix(d.Path, "startupBoost.cpu.quantity") && ok && q.Sign() < 0
		},
	},
	{
		name:    "oomBumpUpRatio compared exactly",
		why:     "A ratio below 1 shrinks what ran out of memory, however little it is below. Upstream counts in thousandths of 64 bits, rounded up.",
		example: `{gates: {PerVPAConfig: true}, object: {spec: {updatePolicy: {updateMode: "Off"}, resourcePolicy: {containerPolicies: [{containerName: a, oomBumpUpRatio: "0.9995"}]}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			q, ok := quantityAt(o.Case.Object, d.Path)
			if !ok || !strings.HasSuffix(d.Path, "].oomBumpUpRatio") || d.Reason != metav1.CauseTypeFieldValueInvalid {
				return false
			}
			isRight, passesUpstream := q.Cmp(resource.MustParse("1")) >= 0, q.MilliValue() >= 1000
			return d.Kind == refuses && !isRight && passesUpstream || d.missing() && isRight && !passesUpstream
		},
	},
	{
		name:    "whole bytes added after an OOM",
		why:     "Memory is counted in whole bytes; 100m, a tenth of a byte, is 100Mi misspelt.",
		example: `{gates: {PerVPAConfig: true}, object: {spec: {updatePolicy: {updateMode: "Off"}, resourcePolicy: {containerPolicies: [{containerName: a, oomMinBumpUp: 100m}]}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			q, ok := quantityAt(o.Case.Object, d.Path)
			return d.Kind == refuses && strings.HasSuffix(d.Path, "].oomMinBumpUp") && ok && q.Cmp(*resource.NewQuantity(q.Value(), resource.DecimalSI)) != 0
		},
	},
	{
		name: "updates that leave a fault alone",
		why:  "An object that was accepted once stays editable, as it does for the rules of CRDs: what did not change is warned about.",
		example: `{old: {spec: {updatePolicy: {updateMode: "Off"}, recommenders: [{name: a}, {name: b}]}},
object: {metadata: {labels: {tier: gold}}, spec: {updatePolicy: {updateMode: "Off"}, recommenders: [{name: a}, {name: b}]}}}`,
		explains: func(o outcome, d discrepancy) bool {
			other := strings.ReplaceAll(d.Path, "maxAllowed", "minAllowed") // where that cannot be read, no maximum is compared with it
			return d.missing() && o.Case.unchanged(d.Path) && (o.Celvpa.tolerates(d.Path) || o.Celvpa.tolerates(keyOf.ReplaceAllString(d.Path, "")) ||
				o.Case.unchanged(other) && isBeyondSchema(o.Case.Object, other) && o.Celvpa.tolerates(keyOf.ReplaceAllString(other, "")))
		},
	},
	{
		name:    "objects that cannot be read",
		why:     "A value of the wrong kind is the user's mistake, not the server's; the answer names the field.",
		example: `object: {spec: {updatePolicy: {updateMode: "Off", minReplicas: many}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return d.Kind == doesNotName && d.Path == "." && !isReadable(o.Case.Object)
		},
	},
	{
		name:    "updates of objects that cannot be read",
		why:     "Upstream refuses to replace an object that it cannot read, whatever by. celvpa lets it be put right, and only warns where the same cannot be read as before: a finalizer must go.",
		example: `{old: {spec: {updatePolicy: {updateMode: "Off", minReplicas: many}}}, object: {spec: {updatePolicy: {updateMode: "Off", minReplicas: 1}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return d.missing() && d.Path == "." && !isReadable(o.Case.Old) && (isReadable(o.Case.Object) || readError(o.Case.Object) == readError(o.Case.Old))
		},
	},
	{
		name:    "updates of empty boosts without their gate",
		why:     "An empty boost is none, so an object that has one stays editable.",
		example: `{old: {spec: {updatePolicy: {updateMode: "Off"}, startupBoost: {}}}, object: {metadata: {labels: {tier: gold}}, spec: {updatePolicy: {updateMode: "Off"}, startupBoost: {}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return d.missing() && d.Path == "spec.startupBoost" && isEmptyBoost(o.Case.Object) && isEmptyBoost(o.Case.Old)
		},
	},
	{
		name:    "boosts by factor or by quantity",
		why:     "The webhook says what upstream leaves to the rules of its CRD: a factor goes with type Factor only, a quantity with type Quantity only.",
		example: `{gates: {CPUStartupBoost: true}, object: {spec: {updatePolicy: {updateMode: "Off"}, startupBoost: {cpu: {type: Quantity, quantity: 500m, factor: 2}}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			at, _, found := strings.Cut(d.Path, "startupBoost.cpu")
			return d.Kind == refuses && found && boostsTwice(get(o.Case.Object, at+"startupBoost.cpu"))
		},
	},
	{
		name:    "what the schema refuses",
		why:     "Upstream's handler reads fractions without quotes, texts with blanks around them and nulls, which its schema refuses. celvpa's rules cannot judge those, so its webhook reports what the schema says, of other fields too.",
		example: `object: {spec: {updatePolicy: {updateMode: "Off"}, resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {cpu: 0.5}, maxAllowed: {cpu: 1}}]}}}`,
		explains: func(o outcome, d discrepancy) bool {
			other := strings.ReplaceAll(d.Path, "maxAllowed", "minAllowed") // both are compared at the maximum
			if d.Kind == doesNotName {                                      // but as the schema does
				dots := inDots.ReplaceAllString(d.Path, ".$1")
				return isBeyondSchema(o.Case.Object, d.Path) || schemaRefuses(o.Case, dots) || schemaRefuses(o.Case, strings.ReplaceAll(dots, "maxAllowed", "minAllowed"))
			}
			return d.Kind == refuses && (isBeyondSchema(o.Case.Object, d.Path) || isBeyondSchema(o.Case.Object, other) || schemaRefuses(o.Case, d.Path))
		},
	},
	{
		name:    "nulls in lists",
		why:     "Upstream reads a null entry as an empty one; the schema refuses it, so celvpa does not look at it.",
		example: `object: {spec: {updatePolicy: {updateMode: "Off"}, resourcePolicy: {containerPolicies: [{containerName: a, controlledResources: [null]}]}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return d.missing() && isInNullEntry(o.Case.Object, d.Path)
		},
	},
	{
		name:    "bounds of other resources named as a whole",
		why:     "The bounds of resources other than CPU and memory are compared by one rule, which names maxAllowed and not the resource in it.",
		example: `object: {spec: {updatePolicy: {updateMode: "Off"}, resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {storage: 2}, maxAllowed: {storage: 1}}]}}}`,
		explains: func(o outcome, d discrepancy) bool {
			bounds := wholeBounds(d.Path)
			return d.Kind == doesNotName && bounds != "" && o.Celvpa.names(issue{Path: bounds, Reason: d.Reason})
		},
	},
	{
		name:    "objects without a spec",
		why:     "Upstream answers with a patch that does not apply, which fails the request without a reason; the schema refuses such objects anyway.",
		example: `object: {metadata: {name: web}}`,
		explains: func(o outcome, d discrepancy) bool {
			return get(o.Case.Object, "spec") == nil && (d.Kind == inapplicable || d.Kind == refuses && d.Path == "spec")
		},
	},
}

// wholeBounds is where celvpa reports a maximum of a resource other than CPU and memory: maxAllowed
// as a whole.
func wholeBounds(path string) string {
	policy, name, _ := strings.Cut(path, ".maxAllowed[")
	if name == "" || name == "cpu]" || name == "memory]" {
		return ""
	}
	return policy + ".maxAllowed"
}

// isReadable reports whether upstream's types can decode an object.
func isReadable(object map[string]any) bool { return readError(object) == "" }

// readError is why upstream's types cannot decode an object; empty if they can.
func readError(object map[string]any) string {
	if err := json.Unmarshal(mustJSON(object), &vpav1.VerticalPodAutoscaler{}); err != nil {
		return err.Error()
	}
	return ""
}

// isEmptyBoost reports whether an object has a startup boost, and no CPU in it.
func isEmptyBoost(object map[string]any) bool {
	return get(object, "spec.startupBoost") != nil && get(object, "spec.startupBoost.cpu") == nil
}

func hasDuplicateNames(object map[string]any) bool {
	policies, _ := get(object, pathPolicies).([]any)
	var seen []any
	for _, p := range policies {
		name := get(p, "containerName")
		if name == nil {
			continue // upstream refuses it
		}
		if slices.Contains(seen, name) {
			return true
		}
		seen = append(seen, name)
	}
	return false
}

// neverEvicts reports whether no change of CPU and memory, up or down, meets all requirements. One
// resource is enough to meet a requirement.
func neverEvicts(object map[string]any) bool {
	requirements, _ := get(object, pathRequirements).([]any)
	for _, cpu := range []string{"TargetHigherThanRequests", "TargetLowerThanRequests"} {
		for _, memory := range []string{"TargetHigherThanRequests", "TargetLowerThanRequests"} {
			fulfilled := func(r any) bool {
				resources, _ := get(r, "resources").([]any)
				change := get(r, "changeRequirement")
				return slices.Contains(resources, any("cpu")) && change == cpu || slices.Contains(resources, any("memory")) && change == memory
			}
			if !slices.ContainsFunc(requirements, func(r any) bool { return !fulfilled(r) }) {
				return false
			}
		}
	}
	return true
}

// boostsTwice reports whether a boost also sets the field of the other type.
func boostsTwice(cpu any) bool {
	switch get(cpu, "type") {
	case "Factor":
		return get(cpu, "quantity") != nil
	case "Quantity":
		return get(cpu, "factor") != nil
	}
	return false
}

func isBelowZero(v any) bool {
	n, ok := v.(int64)
	return ok && n < 0
}

// isBeyondSchema reports whether the value at a path, or one in the map there, is a quantity only
// for upstream's decoder.
func isBeyondSchema(object map[string]any, path string) bool {
	v, there := at(object, placeOf(path))
	if many, ok := v.(map[string]any); ok {
		return slices.ContainsFunc(slices.Collect(maps.Values(many)), isLooseQuantity)
	}
	return there && isLooseQuantity(v)
}

func isLooseQuantity(v any) bool {
	switch x := v.(type) {
	case nil, float64:
		return true
	case string:
		return x != strings.TrimSpace(x)
	}
	return false
}

// isInNullEntry reports whether a path leads to or into a null list entry.
func isInNullEntry(object map[string]any, path string) bool {
	p := placeOf(path)
	for i, step := range p {
		if _, isIndex := step.(int); !isIndex {
			continue
		}
		if v, there := at(object, p[:i+1]); there && v == nil {
			return true
		}
	}
	return false
}

// quantityAt decodes the quantity at a path, like both sides do.
func quantityAt(object any, path string) (resource.Quantity, bool) {
	var q resource.Quantity
	v := get(object, path)
	if v == nil {
		return q, false
	}
	return q, json.Unmarshal(mustJSON(v), &q) == nil
}
