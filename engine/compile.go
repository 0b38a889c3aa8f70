package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
)

// CompileOptions select a pipeline and fix what is constant for its plan.
type CompileOptions struct {
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
}

// Compile type-checks one pipeline, with the overlays that are named, and everything it names. The error lists every fault with its
// position.
func Compile(lib *Library, reg *Registry, opts CompileOptions) (*Plan, error) {
	pipe, err := lib.pipeline(opts.Pipeline)
	if err != nil {
		return nil, err
	}
	c, err := newCompiler(reg, opts.Gates, opts.Params, opts.Points)
	if err != nil {
		return nil, err
	}
	r := resolve(lib, pipe, reg, c.ps)
	c.noteLeftOut(r)
	overlays, err := lib.overlaysNamed(opts.Overlays)
	if err != nil {
		return nil, err
	}
	c.noteParams(r)
	for _, o := range overlays {
		if !o.changes(pipe) {
			return nil, fmt.Errorf("overlay %s is meant for pipeline %s, not for %s", o.Name.Value, o.Pipeline.Value, pipe.ID())
		}
		r.apply(o, lib, c.ps)
		c.noteParams(r)
	}
	plan := c.plan(r)
	c.ps.dedupe() // of axes, the same is told of each value
	if err := c.ps.err(); err != nil {
		return nil, err
	}
	if err := c.unknownParams("pipeline " + pipe.ID()); err != nil {
		return nil, err
	}
	return plan, nil
}

// compiler turns resolved pipelines into plans. Rule sets that several plans share are compiled once.
type compiler struct {
	reg        *Registry
	gateValues map[string]bool
	params     map[string]string // given for all plans, by "set.param"
	base       *cel.Env
	gates      *Record
	gateType   Type
	ps         *problems
	usedParams map[string]bool
	compiled   map[setKey]*setResult
	points     map[string]*pointPlan // by name and the rule sets that run there
	only       []string              // points that are compiled; none = all
	leftOut    map[*RuleSet]bool     // rule sets that pipelines name at other points
	stop       func() error          // why to give up; nil = never

	at       *Point     // of the rule set at hand
	axis     *axisValue // of the stage or validation at hand; nil = none
	findings *problems  // of the rule set at hand
	used     *usage     // of the rule set at hand

	unitFunctions map[string]string // function name of a unit, e.g. mem, to the unit
}

func newCompiler(reg *Registry, gates map[string]bool, params map[string]string, points []string) (*compiler, error) {
	for _, name := range points {
		if reg.points[name] == nil {
			return nil, fmt.Errorf("no point %q to compile; known: %s", name, strings.Join(slices.Sorted(maps.Keys(reg.points)), ", "))
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		if _, known := reg.gates[gate]; !known {
			return nil, fmt.Errorf("no feature gate %q; known: %s", gate, strings.Join(slices.Sorted(maps.Keys(reg.gates)), ", "))
		}
	}
	base, err := baseEnv(reg)
	if err != nil {
		return nil, fmt.Errorf("building the rule environment: %w", err)
	}
	c := &compiler{reg: reg, gateValues: gates, params: params, base: base, ps: &problems{}, findings: &problems{},
		usedParams: map[string]bool{}, compiled: map[setKey]*setResult{}, points: map[string]*pointPlan{}, unitFunctions: map[string]string{},
		only: points, leftOut: map[*RuleSet]bool{}}
	for name, u := range reg.units {
		if u.Func != "" {
			c.unitFunctions[u.Func] = name
		}
	}
	gateSchema := gateSchema(reg)
	c.gates = gateSchema.New()
	for name := range reg.gates {
		c.gates.SetBool(name, gates[name])
	}
	c.gateType = RecordOf(gateSchema)
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
func (c *compiler) noteLeftOut(r *resolved) {
	for _, at := range r.points {
		if c.compiles(at.point.Value) {
			continue
		}
		for _, placed := range at.sets {
			c.leftOut[placed.set] = true
		}
	}
}

// noteParams notes which parameters a pipeline has, whatever overlays make of it.
func (c *compiler) noteParams(r *resolved) {
	for _, p := range r.pipeline.Params {
		c.usedParams[p.Name.Value] = true
	}
	for _, point := range r.points {
		for _, placed := range point.sets {
			for _, p := range placed.set.Params {
				c.usedParams[placed.set.Name.Value+"."+p.Name.Value] = true
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
func (c *compiler) plan(r *resolved) *Plan {
	plan := &Plan{pipeline: r.pipeline.ID(), points: map[string]*pointPlan{}, resolved: r, params: c.params, gates: c.gateValues}
	for _, o := range r.overlays {
		plan.overlays = append(plan.overlays, o.Name.Value)
	}
	r.prune()
	findings := &problems{}
	c.declaredOnce(r)
	h := newDigest()
	h.line("profile", ProfileVersion, r.pipeline.ID())
	for _, at := range r.points {
		c.point(plan, r, at, findings, h)
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(c.reg.points)) {
		if plan.points[name] == nil {
			missing = append(missing, name+": []")
		}
	}
	if len(missing) > 0 {
		c.ps.at(r.pipeline.Name, "Pipeline "+r.pipeline.ID(), "points that are not named: "+strings.Join(missing, ", ")+
			"; list their rule sets, or [] where none are meant to run")
	}
	for _, gate := range slices.Sorted(maps.Keys(c.reg.gates)) {
		h.line("gate", gate, c.gateValues[gate])
	}
	if len(c.ps.list) == 0 {
		for name, at := range plan.points {
			plan.points[name] = c.assembled(at)
		}
	}
	c.unusedShared(r, findings)
	findings.sort()
	plan.findings, plan.digest = findings.list, h.String()
	return plan
}

func (c *compiler) point(plan *Plan, r *resolved, at resolvedPoint, findings *problems, h digest) {
	subject := "Pipeline " + r.pipeline.ID()
	point := c.reg.points[at.point.Value]
	if point == nil {
		c.ps.at(at.point, subject, fmt.Sprintf("no point %q; known: %s", at.point.Value, strings.Join(slices.Sorted(maps.Keys(c.reg.points)), ", ")))
		return
	}
	compiled := &pointPlan{point: point, leftOut: !c.compiles(point.Name)}
	plan.points[point.Name] = compiled
	h.line("point", point.Name)
	seen := map[string]bool{}
	for _, placed := range at.sets {
		set := placed.set
		switch {
		case set.Point.Value != point.Name:
			c.ps.at(placed.at, subject, fmt.Sprintf("rule set %s plugs in at %s, not at %s", set.ID(), set.Point.Value, point.Name))
			continue
		case seen[set.Name.Value]:
			c.ps.at(placed.at, subject, fmt.Sprintf("rule set %s stands twice at %s; of several versions one can run there", set.Name.Value, point.Name))
			continue
		case len(set.entries()) == 0:
			continue // overlays disabled all that it had
		}
		seen[set.Name.Value] = true
		result := c.cached(point, set, c.settings(r, set))
		findings.list = append(findings.list, result.findings...)
		if result.plan == nil {
			continue
		}
		compiled.sets = append(compiled.sets, result.plan)
		h.line("set", set.ID())
		result.params.eachValue("", func(name string, v any) { h.line("param", name, v) })
		h.body(set)
	}
	c.affordableTogether(compiled)
}

// assembled turns a point into code, unless the same rule sets were assembled before: plans with overlays share what the
// overlays leave alone.
func (c *compiler) assembled(at *pointPlan) *pointPlan {
	if at.leftOut {
		return at
	}
	var key strings.Builder
	key.WriteString(at.point.Name)
	for _, set := range at.sets {
		fmt.Fprintf(&key, " %p", set)
	}
	if same := c.points[key.String()]; same != nil {
		return same
	}
	at.assemble(false)
	c.points[key.String()] = at
	return at
}
