package upstream

import (
	"math"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/runtime"
)

// generator generates objects with upstream's fields. Most fields of most objects are valid, so
// that one invalid field decides; some objects are invalid throughout.
type generator struct {
	*rand.Rand
	gates gates
	odd   float64 // how often a value is taken from those that are wrong or at the edge
	has   float64 // how often an optional field is there
}

// generate returns the case of a seed, always the same one.
func generate(seed uint64) testCase {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	g.gates = gates{InPlace: g.chance(0.5), PerVPAConfig: g.chance(0.6), CPUStartupBoost: g.chance(0.6)}
	g.temper()
	c := testCase{Object: g.object(), Gates: g.gates}
	if g.chance(0.5) {
		c.Old = g.old(c.Object)
	}
	if g.chance(0.1) {
		g.looseBounds(c)
	}
	if g.chance(0.06) {
		g.misfit(c.Object)
	}
	if g.chance(0.05) {
		g.null(c.Object)
	}
	if c.Old != nil && g.chance(0.05) {
		g.misfit(c.Old)
	}
	return c
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

// temper chooses how many fields of the next object are set, and how many are invalid.
func (g *generator) temper() {
	g.odd = []float64{0, 0.03, 0.03, 0.15, 0.4}[g.IntN(5)]
	g.has = []float64{0.15, 0.3, 0.6, 0.9}[g.IntN(4)]
}

// pick returns a valid value, or sometimes an odd one.
func (g *generator) pick(right, odd []any) any {
	from := right
	if len(odd) > 0 && g.chance(g.odd) {
		from = odd
	}
	return runtime.DeepCopyJSONValue(from[g.IntN(len(from))])
}

// put sometimes sets a field.
func (g *generator) put(object map[string]any, name string, value func() any) {
	if g.chance(g.has) {
		object[name] = value()
	}
}

// putGated is put for a field that is rarely valid with its gate off.
func (g *generator) putGated(object map[string]any, name string, gate bool, value func() any) {
	if gate || g.chance(0.1+g.odd) {
		g.put(object, name, value)
	}
}

// list is never nil, which would be null.
func list(values ...any) []any { return append([]any{}, values...) }

// object takes names and values in alternation.
func object(fields ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(fields); i += 2 {
		out[fields[i].(string)] = fields[i+1]
	}
	return out
}

func (g *generator) object() map[string]any {
	out := object("apiVersion", "autoscaling.k8s.io/v1", "kind", "VerticalPodAutoscaler",
		"metadata", object("name", "web", "namespace", "shop"), "spec", g.spec())
	if g.chance(0.1) {
		target := object("cpu", g.quantity(cpus), "memory", g.quantity(memories))
		out["status"] = object("recommendation", object("containerRecommendations", list(object("containerName", "a", "target", target))))
	}
	return out
}

// specFields generate the fields of spec. Each can be generated again on its own, for an old object
// that differs in it.
var specFields = []struct {
	name string
	make func(g *generator) any
}{
	{"targetRef", func(g *generator) any {
		return g.pick(list(object("apiVersion", "apps/v1", "kind", "Deployment", "name", "web")),
			list(nil, object(), object("kind", "Deployment"), object("name", "web"), object("kind", "", "name", ""), object("apiVersion", "nonsense", "kind", "Deployment", "name", "web")))
	}},
	{"updatePolicy", func(g *generator) any { return g.updatePolicy() }},
	{"resourcePolicy", func(g *generator) any { return g.resourcePolicy() }},
	{"recommenders", func(g *generator) any {
		one := object("name", "default")
		return g.pick(list(list(), list(one)), list(list(one, object("name", "other")), list(one, one, one), list(object()), list(object("name", "")), list(nil, nil)))
	}},
	{"startupBoost", func(g *generator) any { return g.startupBoost() }},
}

func (g *generator) spec() map[string]any {
	out := map[string]any{}
	for _, f := range specFields {
		switch f.name {
		case "startupBoost":
			g.putGated(out, f.name, g.gates.CPUStartupBoost, func() any { return f.make(g) })
		case "targetRef":
			if !g.chance(g.odd / 4) {
				out[f.name] = f.make(g)
			}
		default:
			g.put(out, f.name, func() any { return f.make(g) })
		}
	}
	return out
}

var positive = []any{int64(1), int64(2), int64(60), int64(math.MaxInt32)}

// notPositive are numbers below one, and some that overflow an int32.
var notPositive = []any{int64(0), int64(0), int64(-1), int64(math.MinInt32), int64(math.MaxInt32 + 1), 1.5, "1"}

func (g *generator) updatePolicy() map[string]any {
	out := map[string]any{}
	if !g.chance(g.odd) {
		out["updateMode"] = g.updateMode()
	}
	g.put(out, "minReplicas", func() any { return g.pick(positive, notPositive) })
	g.putGated(out, "evictAfterOOMSeconds", g.gates.PerVPAConfig, func() any { return g.pick(positive, notPositive) })
	g.put(out, "evictionRequirements", func() any {
		all := list()
		for range g.IntN(4) {
			all = append(all, g.evictionRequirement())
		}
		return all
	})
	return out
}

func (g *generator) updateMode() any {
	right := list("Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto")
	if g.gates.InPlace {
		right = append(right, "InPlace")
	}
	return g.pick(right, list("", "auto", "Sometimes", "InPlace", "InPlace"))
}

func (g *generator) evictionRequirement() any {
	out := object(
		"resources", g.pick(list(list("cpu"), list("memory"), list("cpu", "memory")), list(list(), list("storage"), list("cpu", "storage"), list(""), nil)),
		"changeRequirement", g.pick(list("TargetHigherThanRequests", "TargetHigherThanRequests", "TargetHigherThanRequests", "TargetLowerThanRequests"), list("", "Sometimes")),
	)
	if g.chance(g.odd / 8) {
		delete(out, []string{"resources", "changeRequirement"}[g.IntN(2)])
	}
	return out
}

func (g *generator) resourcePolicy() map[string]any {
	out := map[string]any{}
	if g.chance(0.95) {
		policies := []any{}
		for i := range []int{1, 1, 1, 2, 2, 3, 0}[g.IntN(7)] {
			policies = append(policies, g.containerPolicy(i))
		}
		out["containerPolicies"] = policies
	}
	return out
}

// containerPolicy generates the i-th policy; container names are usually unique.
func (g *generator) containerPolicy(i int) map[string]any {
	out := map[string]any{}
	switch {
	case g.chance(0.04):
		out["containerName"] = "a"
	case !g.chance(g.odd / 4):
		out["containerName"] = g.pick(list([]string{"a", "b", "*"}[i%3]), list("a", "*", "a", ""))
	}
	g.put(out, "mode", func() any { return g.pick(list("Auto", "Off"), list("", "off")) })
	g.bounds(out)
	g.put(out, "controlledResources", func() any {
		return g.pick(list(list("cpu"), list("memory"), list("cpu", "memory"), list()),
			list(list("storage"), list("cpu", "storage"), list("storage", "nvidia.com/gpu", "memory"), list(""), list("cpu", "cpu"), nil))
	})
	g.put(out, "controlledValues", func() any {
		return g.pick(list("RequestsOnly", "RequestsOnly", "RequestsAndLimits"), list("", "Limits", "RequestsAndLimits"))
	})
	perVPA := g.gates.PerVPAConfig
	g.putGated(out, "oomBumpUpRatio", perVPA, func() any { return g.pick(bumpRatios, oddBumpRatios) })
	g.putGated(out, "oomMinBumpUp", perVPA, func() any { return g.pick(bumps, oddBumps) })
	g.putGated(out, "memoryAggregationIntervalSeconds", perVPA, func() any { return g.pick(positive, notPositive) })
	g.putGated(out, "memoryAggregationIntervalCount", perVPA, func() any { return g.pick(append(positive, int64(math.MaxInt64)), notPositive) })
	g.putGated(out, "startupBoost", g.gates.CPUStartupBoost, func() any { return g.startupBoost() })
	return out
}

func (g *generator) startupBoost() map[string]any {
	if g.chance(0.05 + g.odd/4) {
		return g.pick(list(object(), object("cpu", nil)), list(object("cpu", object()))).(map[string]any)
	}
	cpu := map[string]any{}
	factor := func() any { return g.pick(positive, notPositive) }
	quantity := func() any { return g.quantity(boosts) }
	switch kind := g.pick(list("Factor", "Quantity"), list("", "Foo", "Factor", "Quantity")); kind {
	case "Factor":
		cpu["type"] = kind
		cpu["factor"] = factor()
	case "Quantity":
		cpu["type"] = kind
		cpu["quantity"] = quantity()
	default:
		cpu["type"] = kind
	}
	if g.chance(g.odd) { // a value too many, or one too few
		name := []string{"factor", "quantity"}[g.IntN(2)]
		if _, ok := cpu[name]; ok {
			delete(cpu, name)
		} else {
			cpu[name] = map[string]func() any{"factor": factor, "quantity": quantity}[name]()
		}
	}
	if g.chance(g.odd / 8) {
		delete(cpu, "type")
	}
	g.put(cpu, "durationSeconds", func() any {
		return g.pick(list(int64(0), int64(10)), list(int64(-1), int64(-1), int64(math.MinInt32), int64(math.MaxInt32+1)))
	})
	return object("cpu", cpu)
}
