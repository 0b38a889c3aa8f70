package engine

import (
	"sort"
	"strings"
)

// Plan is a compiled pipeline: immutable, and safe for concurrent use.
type Plan struct {
	pipeline string
	digest   string
	overlays []string // applied, in order
	points   map[string]*pointPlan
	findings []*Problem
	resolved *resolved
	params   map[string]string // given by the host
	gates    map[string]bool
}

// Pipeline is the name@version the plan was compiled from.
func (p *Plan) Pipeline() string { return p.pipeline }

// Position is where the pipeline is named.
func (p *Plan) Position() Position { return p.resolved.pipeline.Name.Pos }

// NameAndVersion is the pipeline's name and version.
func (p *Plan) NameAndVersion() (name, version string) {
	name, version, _ = strings.Cut(p.pipeline, "@")
	return name, version
}

// Overlays names the overlays that are part of the plan, in the order in which they were applied.
func (p *Plan) Overlays() []string { return p.overlays }

// Gate reports whether a feature gate is on.
func (p *Plan) Gate(name string) bool { return p.gates[name] }

// Digest identifies the plan's content: its pipeline, rule sets, parameter values and gates. Hex, 12 digits.
func (p *Plan) Digest() string { return p.digest }

// RuleSets lists name@version of the rule sets that run at a point, in order.
func (p *Plan) RuleSets(point string) []string {
	var out []string
	if at := p.points[point]; at != nil {
		for _, s := range at.sets {
			out = append(out, s.ruleSet.ID())
		}
	}
	return out
}

// Points lists the points at which at least one rule set runs, sorted.
func (p *Plan) Points() []string {
	var out []string
	for name, at := range p.points {
		if len(at.sets) > 0 {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// pointPlan is what was type-checked for a point, and the code assembled from it.
type pointPlan struct {
	point *Point
	sets  []*setPlan
	known constants
	code  *pointCode

	leftOut bool // it was not compiled: there is no code, and sets hold parameters only
}

// at is what runs at a point, nil where nothing does. It panics where the point was left out when the plan was compiled:
// to go on without its rules would be to go on without policy.
func (p *Plan) at(point string) *pointPlan {
	at := p.points[point]
	if at != nil && at.leftOut {
		panic("engine: point " + point + " was left out when pipeline " + p.pipeline + " was compiled: name it among the points to compile")
	}
	return at
}

// setPlan is one rule set compiled for one point with its parameters bound.
type setPlan struct {
	ruleSet     *RuleSet
	types       *Registry
	params      *Record
	gates       *Record
	stages      []*stagePlan
	decisions   []*decisionPlan
	variables   *variables // of decisions
	validations []*validationPlan
}

type stagePlan struct {
	name  string
	axis  *axisValue // that it is compiled for; nil = it has no axis
	scope int        // index into Point.Scopes, -1 = run once
	vars  *variables
	when  *program
	rules []*rulePlan

	skipOnError bool   // leave the stage when a rule fails
	overlay     string // that it comes from; empty = none
}

type rulePlan struct {
	name   string
	pos    Position
	when   *program
	writes []writePlan
	note   string

	overlay string // that it comes from; empty = none
}

// writePlan is one `set` (with an expression) or one `unset` (without).
type writePlan struct {
	field string // as written, for traces
	typ   Type
	slot  slot
	path  []int // field indexes below the variable
	value *program
}

type decisionPlan struct {
	decision *Decision
	when     *program // nil = always
	reason   *program // nil = the written reason
}

type validationPlan struct {
	validation *Validation
	axis       *axisValue // that it is compiled for; nil = it has no axis
	places     []*placedValidation
	reads      []string // names of variables, in the condition and the expression
	calls      []string // names of functions, there
}

// Findings are things in the rules that compile and are most likely mistakes, ordered by position.
func (p *Plan) Findings() []*Problem { return p.findings }
