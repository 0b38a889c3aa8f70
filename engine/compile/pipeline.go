// Package compile type-checks rule sets against a registry, and compiles pipelines with their
// overlays to engine.Plans. It checks units, rewrites axes to plain CEL, bounds worst-case costs,
// and finds likely mistakes. It reports all problems at once, each with its position.
//
// A Rulebook holds every plan that a library allows, and selects the one for an object.
package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/inline"
	"github.com/celvpa/celvpa/engine/internal/resolve"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// Options select a pipeline, the default one of a rulebook, and fix what is constant for all plans.
type Options struct {
	Pipeline string            // name@version, or a name, whose highest version counts
	Gates    map[string]bool   // missing gates are off
	Params   map[string]string // overrides parameter defaults, by "ruleset.param", written as in YAML; overlays win
	Points   []string          // to compile; none = all. See Rulebook for the others
	Cache    *Cache            // of compiled rule sets; nil = none
	Labels   Labels            // of other objects than those that overlays are for
}

// Compile compiles one pipeline with the named overlays, which apply regardless of mode and match, or the pipeline that the last
// of them chooses.
// The error lists all faults.
func Compile(lib *document.Library, reg *registry.Registry, o Options, overlays ...string) (*engine.Plan, error) {
	pipe, err := lib.Pipeline(o.Pipeline)
	if err != nil {
		return nil, err
	}
	c, err := newCompiler(reg, o)
	if err != nil {
		return nil, err
	}
	named, err := lib.OverlaysNamed(overlays)
	if err != nil {
		return nil, err
	}
	for _, over := range named {
		if use := over.Uses(); !use.IsZero() {
			if pipe, err = lib.Pipeline(use.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", over.Subject(), err)
			}
		}
	}
	r := resolve.Resolve(lib, pipe, reg, c.ps)
	c.noteLeftOut(r)
	c.noteParams(r)
	for _, over := range named {
		if !over.AppliesTo(pipe) {
			return nil, fmt.Errorf("overlay %s is meant for pipeline %s, not for %s", over.Name.Value, over.PipelineRef().Value, pipe.ID())
		}
		r.Apply(over, lib, c.ps)
		c.noteParams(r)
	}
	plan := c.plan(r)
	c.ps.Dedupe() // each axis value repeats the same problem
	if err := c.ps.Err(); err != nil {
		return nil, err
	}
	if err := c.unknownParams("pipeline " + pipe.ID()); err != nil {
		return nil, err
	}
	return plan, nil
}

// compiler turns resolved pipelines into plans, which share compiled rule sets.
type compiler struct {
	reg        *registry.Registry
	gateValues map[string]bool
	params     map[string]string // set by the host, by "set.param"
	base       *cel.Env
	gates      *lang.Record
	gateType   lang.Type
	ps         *source.Collector
	usedParams map[string]bool
	compiled   map[setKey]*setResult
	cache      *Cache // shared between compilations; nil = none
	edited     map[*document.RuleSet][]editedSet
	points     map[string]*engine.PointPlan // by name and the rule sets that run there
	only       []string                     // points to compile; none = all
	leftOut    map[*document.RuleSet]bool   // rule sets at other points
	spend      func(size int) error         // asked before each expression, in bytes; returns an error to give up; nil = never
	trying     bool                         // only faults are wanted: nothing is kept or assembled

	definitions map[*document.Pipeline]*inline.Definitions
	pipeline    *document.Pipeline  // of the current plan
	inlined     *inline.Definitions // of the current plan

	at       *registry.Point          // of the current rule set
	typed    map[objectPlace]*cel.Env // of the current plan; each takes milliseconds to build
	axis     *lang.AxisValue          // of the current stage or validation; nil = none
	findings *source.Collector        // of the current rule set
	used     *usage                   // of the current rule set
	// The keys that variables of the current rule set and the condition of the current stage ask for.
	variableAsks map[string][]textKey
	stageAsks    []textKey
	// params of the current rule set whose types have faults
	faultyParams map[string]bool

	unitFunctions map[string]string // unit by function name, e.g. mem
}

func newCompiler(reg *registry.Registry, o Options) (*compiler, error) {
	for _, name := range o.Points {
		if reg.PointsByName()[name] == nil {
			return nil, fmt.Errorf("no point %q to compile; known: %s", name, strings.Join(slices.Sorted(maps.Keys(reg.PointsByName())), ", "))
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(o.Gates)) {
		if _, known := reg.Gates()[gate]; !known {
			return nil, fmt.Errorf("no feature gate %q; known: %s", gate, strings.Join(slices.Sorted(maps.Keys(reg.Gates())), ", "))
		}
	}
	base, err := baseEnv(reg)
	if err != nil {
		return nil, fmt.Errorf("building the rule environment: %w", err)
	}
	c := &compiler{reg: reg, gateValues: o.Gates, params: o.Params, base: base, ps: &source.Collector{}, findings: &source.Collector{},
		usedParams: map[string]bool{}, compiled: map[setKey]*setResult{}, edited: map[*document.RuleSet][]editedSet{}, points: map[string]*engine.PointPlan{}, unitFunctions: map[string]string{},
		only: o.Points, cache: o.Cache, leftOut: map[*document.RuleSet]bool{}, definitions: map[*document.Pipeline]*inline.Definitions{}}
	for name, u := range reg.Units() {
		if u.Func != "" {
			c.unitFunctions[u.Func] = name
		}
	}
	gateSchema := gateSchema(reg)
	c.gates = gateSchema.New()
	for name := range reg.Gates() {
		c.gates.SetBool(name, o.Gates[name])
	}
	c.gateType = lang.RecordOf(gateSchema)
	return c, nil
}

// goOn is an error if the compiler is to give up, before it compiles an expression of this size.
func (c *compiler) goOn(size int) error {
	if c.spend == nil {
		return nil
	}
	return c.spend(size)
}

func (c *compiler) compiles(point string) bool {
	return len(c.only) == 0 || slices.Contains(c.only, point)
}

// noteLeftOut records the rule sets at points that are not compiled, before overlays apply.
func (c *compiler) noteLeftOut(r *resolve.Resolved) {
	for _, at := range r.Points {
		if c.compiles(at.Point.Value) {
			continue
		}
		for _, placed := range at.Sets {
			c.leftOut[placed.Set] = true
		}
	}
}

// noteParams records the parameters of a pipeline for unknownParams.
func (c *compiler) noteParams(r *resolve.Resolved) {
	for _, p := range r.Pipeline.Params {
		c.usedParams[p.Name.Value] = true
	}
	for _, point := range r.Points {
		for _, placed := range point.Sets {
			for _, p := range placed.Set.Params {
				c.usedParams[placed.Set.Name.Value+"."+p.Name.Value] = true
			}
		}
	}
}

// unknownParams reports host parameters that no compiled pipeline has.
func (c *compiler) unknownParams(where string) error {
	for _, key := range slices.Sorted(maps.Keys(c.params)) {
		if !c.usedParams[key] {
			return fmt.Errorf("no parameter %q in %s: write it as <rule set>.<param>, or as <param> when it is shared", key, where)
		}
	}
	return nil
}

// plan compiles a resolved pipeline. With faults in c.ps, the plan is unusable.
func (c *compiler) plan(r *resolve.Resolved) *engine.Plan {
	plan := engine.Parts{Pipeline: r.Pipeline.ID(), Points: map[string]*engine.PointPlan{}, Resolved: r, Params: c.params, Gates: c.gateValues}
	for _, o := range r.Overlays {
		plan.Overlays = append(plan.Overlays, o.Name.Value)
	}
	c.pipeline, c.inlined = r.Pipeline, c.definitionsOf(r.Pipeline)
	c.typed = map[objectPlace]*cel.Env{}
	defer func() { c.typed = nil }() // rulebooks keep the compiler
	r.Prune()
	findings := &source.Collector{}
	c.declaredOnce(r)
	h := resolve.NewDigest()
	h.Line("profile", ProfileVersion, r.Pipeline.ID())
	for _, at := range r.Points {
		c.point(&plan, r, at, findings, h)
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(c.reg.PointsByName())) {
		if plan.Points[name] == nil {
			missing = append(missing, name+": []")
		}
	}
	if len(missing) > 0 {
		c.ps.At(r.Pipeline.Name, r.Pipeline.Subject(), "points that are not named: "+strings.Join(missing, ", ")+
			"; list their rule sets, or [] where none are meant to run, or name a pipeline that does in extends")
	}
	for _, gate := range slices.Sorted(maps.Keys(c.reg.Gates())) {
		h.Line("gate", gate, c.gateValues[gate])
	}
	if len(c.ps.List) == 0 && !c.trying {
		for name, at := range plan.Points {
			plan.Points[name] = c.assembled(at)
		}
	}
	c.unusedShared(r, findings)
	for _, i := range r.Pipeline.Insert {
		if _, err := r.Find(i.Before.Value); err != nil && len(r.Overlays) == 0 {
			findings.At(i.Before, r.Pipeline.Subject(), err.Error())
		}
	}
	findings.Sort()
	plan.Findings, plan.Digest = findings.List, h.String()
	return engine.NewPlan(plan)
}

func (c *compiler) point(plan *engine.Parts, r *resolve.Resolved, at resolve.ResolvedPoint, findings *source.Collector, h resolve.Digest) {
	subject := r.Pipeline.PointFrom(at.Point.Value).Subject()
	point := c.reg.PointsByName()[at.Point.Value]
	if point == nil {
		c.ps.At(at.Point, subject, fmt.Sprintf("no point %q; known: %s", at.Point.Value, strings.Join(slices.Sorted(maps.Keys(c.reg.PointsByName())), ", ")))
		return
	}
	compiled := &engine.PointPlan{Point: point, LeftOut: !c.compiles(point.Name)}
	plan.Points[point.Name] = compiled
	h.Line("point", point.Name)
	seen, total := map[string]bool{}, &worstCase{}
	chosen := newChoices(point, findings)
	for _, i := range r.Pipeline.Insert {
		if to, err := r.Find(i.Before.Value); err == nil && r.Points[to.Point].Point.Value == point.Name {
			chosen.places = append(chosen.places, i)
		}
	}
	for _, placed := range at.Sets {
		set := c.shared(placed.Set, placed.Base, placed.By)
		switch {
		case set.Point.Value != point.Name:
			c.ps.At(placed.At, subject, fmt.Sprintf("rule set %s plugs in at %s, not at %s", set.ID(), set.Point.Value, point.Name))
			continue
		case seen[set.Name.Value]:
			c.ps.At(placed.At, subject, fmt.Sprintf("rule set %s stands twice at %s; of several versions one can run there", set.Name.Value, point.Name))
			continue
		case len(set.Entries()) == 0:
			continue // overlays disabled all its entries
		}
		seen[set.Name.Value] = true
		result := c.cached(point, set, c.settings(r, set))
		findings.List = append(findings.List, result.findings...)
		if result.plan == nil {
			continue
		}
		compiled.Sets = append(compiled.Sets, result.plan)
		chosen.set(set, placed.Added != nil)
		total.include(result.cost)
		h.Line("set", set.ID())
		result.params.EachValue("", func(name string, v any) { h.Line("param", name, v) })
		h.Body(set)
		h.Definitions(c.called(set))
	}
	chosen.done()
	compiled.Steps = total.steps
	c.affordableTogether(point, total)
}

// assembled lets plans share the code of points that overlays leave alone.
func (c *compiler) assembled(at *engine.PointPlan) *engine.PointPlan {
	if at.LeftOut {
		return at
	}
	var key strings.Builder
	key.WriteString(at.Point.Name)
	for _, set := range at.Sets {
		fmt.Fprintf(&key, " %p", set)
	}
	if same := c.points[key.String()]; same != nil {
		return same
	}
	at.Assemble(false)
	c.points[key.String()] = at
	return at
}
