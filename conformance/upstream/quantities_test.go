package upstream

import (
	"math"

	"k8s.io/apimachinery/pkg/runtime"
)

// values are quantities of one resource.
type values struct {
	right []any // in ascending order
	odd   []any
}

var cpus = values{
	right: list(int64(0), "1m", "5e-3", "0.1", "100m", "250m", "0.5", "500000u", int64(1), "1", "1000m", "1500m", int64(2), "1e1", "1k", "1e3", "1Ki"),
	odd: append(oddQuantities,
		"0.0005", "0.0001", "100u", "1500u", "100n", "0.1m", "-0.0005", "1e-4", // not whole thousandths
		"-1", "-100m", int64(-1),
	),
}

// boosts are quantities of CPU, with more negative ones.
var boosts = values{right: cpus.right, odd: list("-1", "-100m", int64(-1), "-0.0005", "0.0005", "100u", "1e-4", 0.5, "abc")}

var memories = values{
	right: list("0", int64(1), "1", "1000m", "128Mi", int64(134217728), "1e9", "1G", "1000M", "1Gi", int64(1073741824), "1.5Gi", "2Gi", "1Ti"),
	odd: append(oddQuantities,
		"100m", "1500m", "0.5", "1.1", "0.3Gi", "1n", "-0.5", // not whole bytes
		"-1Gi", int64(-1),
	),
}

var others = values{right: list("0", int64(1), "1", "2", int64(3), "10Gi"), odd: append(oddQuantities, "0.5", "100u", "-1")}

// oddQuantities are barely decodable, for any resource.
var oddQuantities = []any{
	"9223372036854775807", int64(math.MaxInt64), "9223372036854775808", "99999999999999999999", "-9223372036854775809", "1Ei", "100Ei", "1E", "1e30",
	"0.0000000001", "1.0000000001", "+1", ".5", "5.", "1E1",
	0.5, 0.0001, 1e30, // numbers that are no integers; API servers send 1.0 and 1e3 as integers
	" 1", "1 ", "abc", "", "1gi", "1 Gi", "e3", "--1", "1e1.5", true, // texts that are no quantities, or hardly
}

var (
	bumpRatios    = list("1", int64(1), "1.2", "1500m", "2", int64(2), "1.0001")
	oddBumpRatios = list("0.9995", "0.9999", "0.99999999", "999500u", "0.999", "999m", "0.5", int64(0), "0", "-1", int64(-1), "0.9", "1e30", "abc")

	bumps    = list("0", int64(0), "1", "100Mi", int64(104857600), "500m", "0.5")
	oddBumps = list("-1", "-0.5", "-500m", "-1n", "-999m", "-1Mi", int64(-1), "-1.5", "1e30", "abc")
)

func (g *generator) quantity(v values) any { return g.pick(v.right, v.odd) }

// bounds gives a policy minimums and maximums, usually in order.
func (g *generator) bounds(policy map[string]any) {
	low, high := map[string]any{}, map[string]any{}
	for _, r := range []struct {
		name   string
		values values
		often  float64
	}{{"cpu", cpus, 1}, {"memory", memories, 1}, {"nvidia.com/gpu", others, 0.2}, {"storage", others, 0.1}} {
		if !g.chance(r.often) {
			continue
		}
		i, j := g.IntN(len(r.values.right)), g.IntN(len(r.values.right))
		if i > j && !g.chance(g.odd) {
			i, j = j, i
		}
		g.put(low, r.name, func() any { return g.pick(r.values.right[i:i+1], r.values.odd) })
		g.put(high, r.name, func() any { return g.pick(r.values.right[j:j+1], r.values.odd) })
	}
	for name, bounds := range map[string]map[string]any{"minAllowed": low, "maxAllowed": high} {
		if len(bounds) > 0 {
			policy[name] = bounds
		}
	}
	if g.chance(g.odd / 8) {
		policy["minAllowed"] = map[string]any{}
	}
}

// looseQuantities are accepted by upstream's decoder and refused by the schema.
var looseQuantities = list(" 1", "1 ", 0.5, 1e30, "2 ")

// looseBounds gives a policy one bound that only upstream's decoder accepts, and one valid bound.
// Usually the old object has both.
func (g *generator) looseBounds(c testCase) {
	policies, _ := get(c.Object, pathPolicies).([]any)
	if len(policies) == 0 {
		return
	}
	policy := policies[0].(map[string]any)
	names := []string{"cpu", "memory", "nvidia.com/gpu", "storage"}
	i := g.IntN(len(names))
	right := []values{cpus, memories, others, others}[i].right
	low, high := g.pick(looseQuantities, nil), g.pick(right, nil)
	if g.chance(0.3) {
		low, high = high, low
	}
	policy["minAllowed"], policy["maxAllowed"] = object(names[i], low), object(names[i], high)
	if c.Old != nil && g.chance(0.8) {
		put(c.Old, placeOf("spec.resourcePolicy"), runtime.DeepCopyJSONValue(get(c.Object, "spec.resourcePolicy")))
	}
}
