package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// setKey identifies a compiled rule set together with the inputs it depends on.
type setKey struct {
	set     *document.RuleSet
	gates   string
	params  string // those that overlays, options or the pipeline set
	calls   string // what the definitions say that it calls
	leftOut bool   // only its parameters are bound
	checked bool   // type-checked only
}

// setResult is a compiled rule set; plan is nil when its gate is off.
type setResult struct {
	plan     *engine.SetPlan
	params   *lang.Record
	cost     worstCase
	findings []*source.Problem
}

// cached compiles a rule set once per setKey.
func (c *compiler) cached(point *registry.Point, set *document.RuleSet, params []setting) *setResult {
	calls := c.meaningOf(set)
	key := setKey{set: set, gates: c.gatesOf(set, calls), calls: calls, leftOut: c.leftOut[set], checked: !c.compiles(point.Name)}
	for _, p := range params {
		if given, overridden := c.params[p.key]; overridden || p.declarer != "" || p.overlaid {
			key.params += fmt.Sprintf("%s=%q %q %q %q %q ", p.param.Name.Value, p.from.Value, given, p.param.Type.Value, p.param.Min.Value, p.param.Max.Value)
		}
	}
	result := c.compiled[key]
	if result == nil {
		if result = c.cache.get(key); result != nil {
			c.compiled[key] = result
		}
	}
	if result == nil {
		c.findings = &source.Collector{}
		result = &setResult{}
		before := len(c.ps.List)
		result.plan, result.params = c.set(point, set, params, &result.cost)
		result.findings = c.findings.List
		if len(c.ps.List) == before && !c.trying { // faults are reported each time
			c.compiled[key] = result
			c.cache.put(key, result)
		}
	}
	return result
}

// gatesOf returns the values of the gates that a rule set depends on, by itself or by what it calls.
func (c *compiler) gatesOf(set *document.RuleSet, calls string) string {
	var out strings.Builder
	for _, gate := range slices.Sorted(maps.Keys(c.gateValues)) {
		if gate == set.Gate.Value || set.Mentions(gate) || strings.Contains(calls, gate) {
			fmt.Fprintf(&out, "%s=%t ", gate, c.gateValues[gate])
		}
	}
	return out.String()
}

// set compiles a rule set; the plan is nil when its gate is off, after type-checking. At a point
// that is left out it only binds parameters, which the digest needs. What overlays bring there is
// still type-checked, and its cost counted: whoever accepts an overlay answers for all of it.
func (c *compiler) set(point *registry.Point, set *document.RuleSet, params []setting, cost *worstCase) (*engine.SetPlan, *lang.Record) {
	subject := "RuleSet " + set.ID()
	kind := map[registry.PointKind]int{registry.StagePoint: len(set.Stages), registry.DecisionPoint: len(set.Decisions), registry.ValidationPoint: len(set.Validations)}
	if kind[point.Kind] == 0 {
		c.ps.At(set.Point, subject, fmt.Sprintf("point %s takes %s", point.Name, point.Kind))
		return nil, nil
	}
	c.insertedTwice(set)
	c.at = point
	on := true
	if !set.Gate.IsZero() {
		if _, known := c.reg.Gates()[set.Gate.Value]; !known {
			c.ps.At(set.Gate, subject, fmt.Sprintf("no feature gate %q; known: %s", set.Gate.Value, strings.Join(slices.Sorted(maps.Keys(c.reg.Gates())), ", ")))
		}
		on = c.gateValues[set.Gate.Value]
	}
	compiled := &engine.SetPlan{RuleSet: set, Types: c.reg, Gates: c.gates}
	if c.leftOut[set] {
		c.bindParams(set, compiled, params, subject)
	} else if !c.expressions(point, set, compiled, params, subject) {
		return nil, nil
	}
	if !on {
		return nil, compiled.Params
	}
	*cost = worstCaseOf(compiled)
	if !c.compiles(point.Name) { // only checked
		compiled = &engine.SetPlan{RuleSet: set, Types: c.reg, Gates: c.gates, Params: compiled.Params}
	}
	return compiled, compiled.Params
}

// expressions compiles the body of a rule set; ok is false when nothing of it is usable.
func (c *compiler) expressions(point *registry.Point, set *document.RuleSet, compiled *engine.SetPlan, params []setting, subject string) (ok bool) {
	c.used = &usage{names: map[string]bool{}}
	c.variableAsks, c.stageAsks = map[string][]textKey{}, nil
	switch point.Kind {
	case registry.ValidationPoint:
		c.validations(point, set, compiled, params)
	default:
		sc := c.scopeFor(point, set, compiled, params, subject)
		if sc == nil {
			return false
		}
		if point.Kind == registry.DecisionPoint {
			c.decisions(point, set, compiled, sc)
		} else {
			for i := range set.Stages {
				compiled.Stages = append(compiled.Stages, c.stages(point, &set.Stages[i], sc, subject)...)
			}
		}
	}
	c.unused(set, c.used)
	c.unreachable(set)
	return true
}

// insertedTwice reports duplicate names from overlays. The decoder reports those within a file.
func (c *compiler) insertedTwice(set *document.RuleSet) {
	type brought struct {
		name    source.Scalar
		overlay string
	}
	report := func(name source.Scalar, overlay string, seen map[string]brought) {
		before, twice := seen[name.Value]
		if twice && (before.overlay != "" || overlay != "") {
			at := name
			if overlay == "" {
				at = before.name
			}
			c.ps.At(at, "RuleSet "+set.ID(), fmt.Sprintf("there are two called %q, from %s and from %s; give one another name",
				name.Value, broughtBy(before.overlay), broughtBy(overlay)))
		}
		seen[name.Value] = brought{name, overlay}
	}
	entries := map[string]brought{}
	for _, st := range set.Stages {
		report(st.Name, st.Overlay, entries)
		rules := map[string]brought{}
		for _, r := range st.Rules {
			report(r.Name, r.Overlay, rules)
		}
	}
	for _, x := range set.Decisions {
		report(x.Name, x.Overlay, entries)
	}
	for _, v := range set.Validations {
		report(v.Name, v.Overlay, entries)
	}
}

func broughtBy(overlay string) string {
	if overlay == "" {
		return "the rule set itself"
	}
	return document.KindOverlay + " " + overlay
}

// scopeFor types what every expression of a rule set sees: the point's variables, params and gates.
func (c *compiler) scopeFor(point *registry.Point, set *document.RuleSet, compiled *engine.SetPlan, params []setting, subject string) *scopeEnv {
	fields := c.bindParams(set, compiled, params, subject)
	paramSchema := compiled.Params.Schema()
	sc := &scopeEnv{types: map[string]lang.Type{}, writable: map[string]bool{}, bounds: map[string]*registry.BoundVar{}, slots: map[string]closure.Slot{}, params: compiled.Params, estimates: map[string]*closure.Estimate{}}
	schemas := c.schemasWith(paramSchema)
	sc.schemas = schemas
	options := []cel.EnvOption{cel.CustomTypeProvider(&lang.TypeProvider{Provider: c.base.CELTypeProvider(), Schemas: schemas})}
	sc.declare(&options, "gates", c.gateType, false, closure.Slot{Kind: closure.GateSlot})
	if len(fields) > 0 {
		options = append(options, inRecords(paramSchema.WithNested()))
		sc.declare(&options, "params", lang.RecordOf(paramSchema), false, closure.Slot{Kind: closure.ParamSlot})
	}
	for i, v := range point.Vars {
		sc.declare(&options, v.Name, v.Type, v.Writable, closure.Slot{Kind: closure.FactSlot, Index: i, Live: v.OfScope() != nil})
	}
	sc.declareBounds(point.Bounds)
	env, err := c.base.Extend(options...)
	if err != nil {
		c.ps.At(set.Name, subject, err.Error())
		return nil
	}
	sc.env, sc.planner = env, env
	return sc
}
