package upstream

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Quantities for pods, LimitRanges and recommendations. They are few and close together, so that
// they often bound each other.
var (
	podCPUs     = values{right: list("1m", "3m", "7m", "50m", "100m", "150m", "200m", "250m", "333m", "0.5", "1", "1500m", "2"), odd: list("0", "1e3", "100500u", "1n", "1Ki")}
	podMemories = values{right: list("1", "3", "7", "50Mi", "64Mi", "100Mi", "128Mi", "200Mi", "104857601", "1e8", "512Mi", "1Gi", "2G"), odd: list("0", "1500m", "1e3", "0.5", "100500u")}
	// rangeCPUs and rangeMemories are for LimitRanges.
	rangeCPUs     = values{right: list("10m", "80m", "100m", "150m", "300m", "400m", "600m", "1", "2"), odd: list("0", "1m", "100500u", "1e4")}
	rangeMemories = values{right: list("10Mi", "80Mi", "100Mi", "250Mi", "500Mi", "512Mi", "1Gi", "4Gi"), odd: list("0", "7", "1500m", "1Ti")}
	// targetCPUs and targetMemories are recommended.
	targetCPUs     = values{right: list("1m", "4m", "10m", "21m", "25m", "90m", "120m", "250m", "400m", "800m", "1", "2"), odd: list("0", "1e10", "0.0005", "9223372036854775807", "-100m")}
	targetMemories = values{right: list("10", "52428800", "50Mi", "100Mi", "200Mi", "262144000", "500Mi", "600Mi", "1Gi", "1234567891"), odd: list("0", "1500m", "1Ei", "9223372036854775807", "-1")}
	highTargets    = list("1e8", "100000G")
)

// podKind says what is generated.
type podKind struct {
	boost    bool // the gate CPUStartupBoost, and boosts
	podLevel bool // pods have resources at pod level
}

// generatePod returns the case of a seed, always the same one.
func generatePod(seed uint64, kind podKind) testCase {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	g.gates = gates{CPUStartupBoost: kind.boost}
	g.temper()
	g.odd /= 4
	names := []string{"a", "b", "c", "d", "e"}[:1+min(g.IntN(5), g.IntN(5))]
	input := object("pod", g.pod(names, kind), "vpa", g.podVPA(names, kind))
	ranges := list()
	for i := range []int{0, 0, 1, 1, 1, 2, 3}[g.IntN(7)] {
		ranges = append(ranges, object("metadata", object("name", string(rune('x'+i))), "spec", object("limits", g.limitRangeItems())))
	}
	if len(ranges) > 0 {
		input["limitRanges"] = ranges
	}
	if kind.boost && g.chance(0.3) {
		input["maxAllowedCPUBoost"] = g.pick(list("300m", "1", "5m"), nil)
	}
	return testCase{Object: input, Gates: g.gates}
}

func (g *generator) pod(names []string, kind podKind) map[string]any {
	containers := list()
	for _, name := range names {
		c := object("name", name)
		if r := g.stanza(0.7); len(r) > 0 {
			c["resources"] = r
		}
		containers = append(containers, c)
	}
	spec := object("containers", containers)
	if g.chance(0.15) || kind.podLevel && g.chance(0.4) {
		c := object("name", "init", "resources", g.stanza(0.6))
		if g.chance(0.4) {
			c["restartPolicy"] = "Always"
		}
		spec["initContainers"] = list(c)
	}
	if kind.podLevel {
		spec["resources"] = g.stanza(0.8)
		g.spread(spec)
	}
	pod := object("metadata", object("name", "web-1"), "spec", spec)
	if g.chance(0.3) {
		pod["metadata"].(map[string]any)["annotations"] = object("team", "web")
	}
	return pod
}

// spread usually makes the pod-level resources large enough for the containers.
func (g *generator) spread(spec map[string]any) {
	whole := spec["resources"].(map[string]any)
	for _, field := range []string{"requests", "limits"} {
		if amounts, ok := whole[field].(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(amounts)) {
				amounts[name] = map[string]any{"cpu": g.pick(list("4", "8", "20"), list("1")), "memory": g.pick(list("8Gi", "16Gi"), list("1Gi"))}[name]
				if field == "limits" && g.chance(0.5) {
					amounts[name] = map[string]any{"cpu": "20", "memory": "32Gi"}[name]
				}
				if amounts[name] == nil {
					delete(amounts, name)
				}
			}
		}
	}
}

// stanza generates requests and limits: equal, in an odd ratio, or only one of them. API servers
// usually have defaulted a missing request to the limit.
func (g *generator) stanza(has float64) map[string]any {
	requests, limits := map[string]any{}, map[string]any{}
	for _, r := range []struct {
		name   string
		values values
	}{{"cpu", podCPUs}, {"memory", podMemories}} {
		if !g.chance(has) {
			continue
		}
		i, j := g.IntN(len(r.values.right)), g.IntN(len(r.values.right))
		if i > j && !g.chance(g.odd/4) {
			i, j = j, i
		}
		switch g.IntN(5) {
		case 0:
			requests[r.name] = g.pick(r.values.right[i:i+1], r.values.odd)
		case 1:
			limits[r.name] = g.pick(r.values.right[j:j+1], r.values.odd)
			if g.chance(0.7) {
				requests[r.name] = limits[r.name]
			}
		case 2:
			requests[r.name] = g.pick(r.values.right[i:i+1], r.values.odd)
			limits[r.name] = requests[r.name]
		default:
			requests[r.name] = g.pick(r.values.right[i:i+1], nil)
			limits[r.name] = g.pick(r.values.right[j:j+1], r.values.odd)
		}
	}
	if g.chance(0.06) {
		name := g.pick(list("nvidia.com/gpu", "ephemeral-storage"), nil).(string)
		requests[name] = "1"
		limits[name] = "1"
	}
	out := map[string]any{}
	if len(requests) > 0 || g.chance(0.02) {
		out["requests"] = requests
	}
	if len(limits) > 0 || g.chance(0.02) {
		out["limits"] = limits
	}
	return out
}

func (g *generator) limitRangeItems() []any {
	out := list()
	for range 1 + g.IntN(2) {
		kind := g.pick(list("Container", "Container", "Pod", "Pod"), list("PersistentVolumeClaim")).(string)
		item := object("type", kind)
		fields := []string{"min", "max"}
		if kind == "Container" {
			fields = append(fields, "default", "defaultRequest")
		}
		for _, field := range fields {
			if g.chance(0.5) {
				continue
			}
			amounts := map[string]any{}
			if g.chance(0.7) {
				amounts["cpu"] = g.quantity(rangeCPUs)
			}
			if g.chance(0.7) {
				amounts["memory"] = g.quantity(rangeMemories)
			}
			if g.chance(0.05) {
				amounts["ephemeral-storage"] = "1Gi"
			}
			item[field] = amounts
		}
		out = append(out, item)
	}
	return out
}

func (g *generator) podVPA(names []string, kind podKind) map[string]any {
	spec, v := map[string]any{}, map[string]any{}
	if g.chance(0.5) {
		spec["updatePolicy"] = object("updateMode", g.pick(list("Initial", "Recreate", "InPlaceOrRecreate", "Auto", "Off"), nil))
	}
	if kind.boost && g.chance(0.5) || g.chance(0.03) {
		spec["startupBoost"] = g.podBoost()
	}
	if g.chance(0.7) {
		policies := list()
		for _, name := range append([]string{"*", "gone"}, names...) {
			if g.chance(0.3) {
				policies = append(policies, g.podPolicy(name, kind))
			}
		}
		g.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
		spec["resourcePolicy"] = object("containerPolicies", policies)
	}
	v["spec"] = spec
	if g.chance(0.95) {
		recommended := list()
		for _, name := range append([]string{"gone", "init"}, names...) {
			often := 0.85
			if name == "gone" || name == "init" {
				often = 0.1
			}
			if g.chance(often) {
				recommended = append(recommended, g.podRecommendation(name))
			}
			if g.chance(g.odd / 8) {
				recommended = append(recommended, g.podRecommendation(name)) // a second one for the same container
			}
		}
		v["status"] = object("recommendation", object("containerRecommendations", recommended))
	}
	return v
}

func (g *generator) podRecommendation(name string) map[string]any {
	amounts := func(high bool) map[string]any {
		out := map[string]any{}
		if g.chance(0.93) {
			out["cpu"] = g.quantity(targetCPUs)
		}
		if g.chance(0.93) {
			out["memory"] = g.quantity(targetMemories)
		}
		if g.chance(g.odd / 4) {
			out["nvidia.com/gpu"] = "2"
		}
		if high && g.chance(0.3) && len(out) > 0 {
			return map[string]any{"cpu": highTargets[0], "memory": highTargets[1]}
		}
		return out
	}
	out := object("containerName", name, "target", amounts(false))
	if g.chance(0.7) {
		out["lowerBound"] = amounts(false)
		out["upperBound"] = amounts(true)
	}
	return out
}

func (g *generator) podPolicy(name string, kind podKind) map[string]any {
	out := object("containerName", name)
	if g.chance(0.25) {
		out["mode"] = g.pick(list("Auto", "Off"), nil)
	}
	for _, field := range []string{"minAllowed", "maxAllowed"} {
		if g.chance(0.5) {
			continue
		}
		amounts := map[string]any{}
		if g.chance(0.7) {
			amounts["cpu"] = g.quantity(rangeCPUs)
		}
		if g.chance(0.7) {
			amounts["memory"] = g.quantity(rangeMemories)
		}
		if g.chance(g.odd) {
			amounts["nvidia.com/gpu"] = "1"
		}
		out[field] = amounts
	}
	if g.chance(0.5) {
		out["controlledValues"] = g.pick(list("RequestsOnly", "RequestsAndLimits"), nil)
	}
	if g.chance(0.3) {
		out["controlledResources"] = g.pick(list(list("cpu"), list("memory"), list("cpu", "memory")), list(list()))
	}
	if kind.boost && g.chance(0.4) {
		out["startupBoost"] = g.podBoost()
	}
	return out
}

func (g *generator) podBoost() map[string]any {
	if g.chance(0.03 + g.odd/4) {
		return map[string]any{}
	}
	cpu := object("type", "Factor", "factor", g.pick(list(int64(1), int64(2), int64(3), int64(10)), list(int64(0), int64(1<<31-1))))
	if g.chance(0.5) {
		cpu = object("type", "Quantity", "quantity", g.quantity(values{right: list("0", "1m", "100m", "1", "1500m"), odd: list("1e15", "100500u", "-100m")}))
	}
	if g.chance(g.odd / 4) {
		delete(cpu, "factor")
	}
	return object("cpu", cpu)
}
