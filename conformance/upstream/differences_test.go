package upstream

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// difference is a way in which celvpa answers otherwise than upstream on purpose. Its name is a heading of the table in
// docs/upstream-differences.md.
type difference struct {
	name    string
	why     string
	example string // a case in YAML that differs in this and in nothing else
	// explains reports whether this is why the answers differ in a point. It looks at what is in the case, not only at
	// what celvpa says.
	explains func(o outcome, d discrepancy) bool
}

const (
	pathMode         = "spec.updatePolicy.updateMode"
	pathRequirements = "spec.updatePolicy.evictionRequirements"
	pathPolicies     = "spec.resourcePolicy.containerPolicies"
)

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
		name:    "oomBumpUpRatio compared exactly",
		why:     "A ratio below 1 shrinks what ran out of memory, however little it is below.",
		example: `{gates: {PerVPAConfig: true}, object: {spec: {updatePolicy: {updateMode: "Off"}, resourcePolicy: {containerPolicies: [{containerName: a, oomBumpUpRatio: "0.9995"}]}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			q, ok := quantityAt(o, d.Path)
			return d.Kind == refuses && strings.HasSuffix(d.Path, "].oomBumpUpRatio") && ok &&
				q.Cmp(resource.MustParse("1")) < 0 && q.MilliValue() >= 1000
		},
	},
	{
		name:    "oomMinBumpUp compared exactly",
		why:     "A negative amount is a mistake even where it rounds to nothing.",
		example: `{gates: {PerVPAConfig: true}, object: {spec: {updatePolicy: {updateMode: "Off"}, resourcePolicy: {containerPolicies: [{containerName: a, oomMinBumpUp: "-0.5"}]}}}}`,
		explains: func(o outcome, d discrepancy) bool {
			q, ok := quantityAt(o, d.Path)
			return d.Kind == refuses && strings.HasSuffix(d.Path, "].oomMinBumpUp") && ok && q.Sign() < 0 && q.Value() >= 0
		},
	},
	{
		name: "updates that leave a fault alone",
		why:  "An object that was accepted once stays editable, as it does for the rules of CRDs: what did not change is warned about.",
		example: `{old: {spec: {updatePolicy: {updateMode: "Off"}, recommenders: [{name: a}, {name: b}]}},
object: {spec: {updatePolicy: {updateMode: Recreate}, recommenders: [{name: a}, {name: b}]}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return (d.Kind == letsThrough || d.Kind == doesNotName) && o.Case.unchanged(d.Path) && o.Celvpa.tolerates(d.Path)
		},
	},
	{
		name:    "objects that cannot be read",
		why:     "A value of the wrong kind is the user's mistake, not the server's; the answer names the field.",
		example: `object: {spec: {updatePolicy: {updateMode: "Off", minReplicas: many}}}`,
		explains: func(o outcome, d discrepancy) bool {
			return d.Kind == doesNotName && d.Path == "." && undecoded(o.Upstream)
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

// neverEvicts reports whether no change of CPU and memory, each up or down, fulfils all requirements. A requirement is
// fulfilled by one of its resources.
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

// boostsTwice reports whether a boost holds the value of the other type beside its own.
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

// quantityAt reads the quantity at a path of the object, as both sides decode it.
func quantityAt(o outcome, path string) (resource.Quantity, bool) {
	var q resource.Quantity
	v := get(o.Case.Object, path)
	if v == nil {
		return q, false
	}
	return q, json.Unmarshal(mustJSON(v), &q) == nil
}
