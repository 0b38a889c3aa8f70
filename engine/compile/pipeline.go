// Package compile type-checks rule sets against a registry, and makes engine.Plans of pipelines
// with their overlays. It checks units, takes axes out of expressions, bounds what rules may take
// at worst, and finds what is most likely a mistake. Each problem has its position, and all of them
// are reported at once.
//
// A Rulebook holds every plan that a library makes possible, and picks the one that is in force for
// an object.
package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/resolve"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// Options select a pipeline and fix what is constant for its plan.
type Options struct {
	// Pipeline is name@version, or a name that only one version has.
	Pipeline string
	// Overlays are applied whatever their mode and match, in the order in which they apply.
	Overlays []string
	// Gates switches feature gates; gates left out are off.
	Gates map[string]bool
	// Params overrides parameter defaults, keyed "ruleset.param", written as in YAML.
	Params map[string]string
	// Points names the points that are compiled; none = all. See Rulebook for what becomes of the others.
	Points []string
	// Cache keeps compiled rule sets; nil = none.
	Cache *Cache
}

// Compile type-checks one pipeline, with the overlays that are named, and everything it names. The error lists every fault with its
// position.
func Compile(lib *document.Library, reg *registry.Registry, opts Options) (*engine.Plan, error) {
	pipe, err := lib.Pipeline(opts.Pipeline)
	if err != nil {
		return nil, err
	}
	c, err := newCompiler(reg, opts.Gates, opts.Params, opts.Points)
	if err != nil {
		return nil, err
	}
	c.cache = opts.Cache
	r := resolve.Resolve(lib, pipe, reg, c.ps)
	c.noteLeftOut(r)
	overlays, err := lib.OverlaysNamed(opts.Overlays)
	if err != nil {
		return nil, err
	}
	c.noteParams(r)
	for _, o := range overlays {
		if !o.AppliesTo(pipe) {
			return nil, fmt.Errorf("overlay %s is meant for pipeline %s, not for %s", o.Name.Value, o.Pipeline.Value, pipe.ID())
		}
		r.Apply(o, lib, c.ps)
		c.noteParams(r)
	}
	plan := c.plan(r)
	c.ps.Dedupe() // of axes, the same is told of each value
	if err := c.ps.Err(); err != nil {
		return nil, err
	}
	if err := c.unknownParams("pipeline " + pipe.ID()); err != nil {
		return nil, err
	}
	return plan, nil
}

// compiler turns resolved pipelines into plans. Rule sets that several plans share are compiled once.
type compiler struct {
	reg        *registry.Registry
	gateValues map[string]bool
	params     map[string]string // given for all plans, by "set.param"
	base       *cel.Env
	gates      *lang.Record
	gateType   lang.Type
	ps         *source.Collector
	usedParams map[string]bool
	compiled   map[setKey]*setResult
	cache      *Cache                       // of several compilations; nil = none
	points     map[string]*engine.PointPlan // by name and the rule sets that run there
	only       []string                     // points that are compiled; none = all
	leftOut    map[*document.RuleSet]bool   // rule sets that pipelines name at other points
	stop       func() error                 // why to give up; nil = never

	at       *registry.Point   // of the rule set at hand
	axis     *lang.AxisValue   // of the stage or validation at hand; nil = none
	findings *source.Collector // of the rule set at hand
	used     *usage            // of the rule set at hand

	unitFunctions map[string]string // function name of a unit, e.g. mem, to the unit
}

func newCompiler(reg *registry.Registry, gates map[string]bool, params map[string]string, points []string) (*compiler, error) {
	for _, name := range points {
		if reg.PointsByName()[name] == nil {
			return nil, fmt.Errorf("no point %q to compile; known: %s", name, strings.Join(slices.Sorted(maps.Keys(reg.PointsByName())), ", "))
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		if _, known := reg.Gates()[gate]; !known {
			return nil, fmt.Errorf("no feature gate %q; known: %s", gate, strings.Join(slices.Sorted(maps.Keys(reg.Gates())), ", "))
		}
	}
	base, err := baseEnv(reg)
	if err != nil {
		return nil, fmt.Errorf("building the rule environment: %w", err)
	}
	c := &compiler{reg: reg, gateValues: gates, params: params, base: base, ps: &source.Collector{}, findings: &source.Collector{},
		usedParams: map[string]bool{}, compiled: map[setKey]*setResult{}, points: map[string]*engine.PointPlan{}, unitFunctions: map[string]string{},
		only: points, leftOut: map[*document.RuleSet]bool{}}
	for name, u := range reg.Units() {
		if u.Func != "" {
			c.unitFunctions[u.Func] = name
		}
	}
	gateSchema := gateSchema(reg)
	c.gates = gateSchema.New()
	for name := range reg.Gates() {
		c.gates.SetBool(name, gates[name])
	}
	c.gateType = lang.RecordOf(gateSchema)
	return c, nil
}

// stopped is why to give up, nil while there is no reason.
func (c *compiler) stopped() error {
	if c.stop == nil {
		return nil
	}
	return c.stop()
}

// compiles reports whether a point is compiled.
func (c *compiler) compiles(point string) bool {
	return len(c.only) == 0 || slices.Contains(c.only, point)
}

// noteLeftOut notes which rule sets a pipeline without overlays has at points that are not compiled.
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

// noteParams notes which parameters a pipeline has, whatever overlays make of it.
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

// unknownParams reports parameters that were given and that nothing compiled so far has.
func (c *compiler) unknownParams(where string) error {
	for _, key := range slices.Sorted(maps.Keys(c.params)) {
		if !c.usedParams[key] {
			return fmt.Errorf("no parameter %q in %s: write it as <rule set>.<param>, or as <param> when it is shared", key, where)
		}
	}
	return nil
}

// plan compiles a resolved pipeline. Faults go to c.ps; with any, the plan is not to be used.
func (c *compiler) plan(r *resolve.Resolved) *engine.Plan {
	plan := engine.Parts{Pipeline: r.Pipeline.ID(), Points: map[string]*engine.PointPlan{}, Resolved: r, Params: c.params, Gates: c.gateValues}
	for _, o := range r.Overlays {
		plan.Overlays = append(plan.Overlays, o.Name.Value)
	}
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
		c.ps.At(r.Pipeline.Name, "Pipeline "+r.Pipeline.ID(), "points that are not named: "+strings.Join(missing, ", ")+
			"; list their rule sets, or [] where none are meant to run")
	}
	for _, gate := range slices.Sorted(maps.Keys(c.reg.Gates())) {
		h.Line("gate", gate, c.gateValues[gate])
	}
	if len(c.ps.List) == 0 {
		for name, at := range plan.Points {
			plan.Points[name] = c.assembled(at)
		}
	}
	c.unusedShared(r, findings)
	findings.Sort()
	plan.Findings, plan.Digest = findings.List, h.String()
	return engine.NewPlan(plan)
}

func (c *compiler) point(plan *engine.Parts, r *resolve.Resolved, at resolve.ResolvedPoint, findings *source.Collector, h resolve.Digest) {
	subject := "Pipeline " + r.Pipeline.ID()
	point := c.reg.PointsByName()[at.Point.Value]
	if point == nil {
		c.ps.At(at.Point, subject, fmt.Sprintf("no point %q; known: %s", at.Point.Value, strings.Join(slices.Sorted(maps.Keys(c.reg.PointsByName())), ", ")))
		return
	}
	compiled := &engine.PointPlan{Point: point, LeftOut: !c.compiles(point.Name)}
	plan.Points[point.Name] = compiled
	h.Line("point", point.Name)
	seen := map[string]bool{}
	for _, placed := range at.Sets {
		set := placed.Set
		switch {
		case set.Point.Value != point.Name:
			c.ps.At(placed.At, subject, fmt.Sprintf("rule set %s plugs in at %s, not at %s", set.ID(), set.Point.Value, point.Name))
			continue
		case seen[set.Name.Value]:
			c.ps.At(placed.At, subject, fmt.Sprintf("rule set %s stands twice at %s; of several versions one can run there", set.Name.Value, point.Name))
			continue
		case len(set.Entries()) == 0:
			continue // overlays disabled all that it had
		}
		seen[set.Name.Value] = true
		result := c.cached(point, set, c.settings(r, set))
		findings.List = append(findings.List, result.findings...)
		if result.plan == nil {
			continue
		}
		compiled.Sets = append(compiled.Sets, result.plan)
		h.Line("set", set.ID())
		result.params.EachValue("", func(name string, v any) { h.Line("param", name, v) })
		h.Body(set)
	}
	c.affordableTogether(compiled)
}

// assembled turns a point into code, unless the same rule sets were assembled before: plans with overlays share what the
// overlays leave alone.
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
