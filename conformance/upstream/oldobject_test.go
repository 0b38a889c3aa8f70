package upstream

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// old generates the old object: unrelated, identical, or similar.
func (g *generator) old(now map[string]any) map[string]any {
	switch {
	case g.chance(0.15):
		return object("metadata", object("name", "web"), "spec", object("targetRef", object("kind", "Deployment", "name", "web")))
	case g.chance(0.2):
		was := g.gates
		g.gates = gates{InPlace: true, PerVPAConfig: true, CPUStartupBoost: true} // it may have used what is off by now
		g.temper()
		out := g.object()
		g.gates = was
		return out
	case g.chance(0.15):
		return runtime.DeepCopyJSON(now)
	}
	return g.variant(now)
}

// variant is a copy of an object with some parts generated again or removed.
func (g *generator) variant(now map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(now)
	spec := out["spec"].(map[string]any)
	for _, f := range specFields {
		switch {
		case g.chance(0.15):
			delete(spec, f.name)
		case g.chance(0.15):
			spec[f.name] = f.make(g)
		}
	}
	if update, ok := spec["updatePolicy"].(map[string]any); ok && g.chance(0.5) {
		g.renew(update, g.updatePolicy())
	}
	resources, _ := spec["resourcePolicy"].(map[string]any)
	policies, _ := resources["containerPolicies"].([]any)
	if len(policies) == 0 || !g.chance(0.6) {
		return out
	}
	switch i := g.IntN(len(policies)); g.IntN(3) {
	case 0:
		resources["containerPolicies"] = policies[:i]
	case 1:
		resources["containerPolicies"] = append(policies, g.containerPolicy(len(policies)))
	default:
		g.renew(policies[i].(map[string]any), g.containerPolicy(i))
	}
	return out
}

// renew copies some fields from another object.
func (g *generator) renew(object, from map[string]any) {
	for _, key := range sortedKeys(object) {
		if g.chance(0.3) {
			delete(object, key)
		}
	}
	for _, key := range sortedKeys(from) {
		if g.chance(0.3) {
			object[key] = from[key]
		}
	}
}

// misfit puts a value of the wrong JSON type somewhere.
func (g *generator) misfit(object map[string]any) {
	all := places(object)
	put(object, all[g.IntN(len(all))], g.pick(list("text", int64(7), true, list(), map[string]any{}, list(int64(1)), 1.5), nil))
}

// null puts a null somewhere; most decoders treat it as an absent field.
func (g *generator) null(object map[string]any) {
	all := places(object)
	put(object, all[g.IntN(len(all))], nil)
}
