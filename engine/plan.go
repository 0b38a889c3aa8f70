package engine

import (
	"sort"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/internal/resolve"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// Plan is a compiled pipeline: immutable, and safe for concurrent use. Package compile makes plans.
type Plan struct{ parts Parts }

// Parts are what a plan is made of.
type Parts struct {
	Pipeline string   // name@version
	Digest   string   // see Plan.Digest
	Overlays []string // applied, in order
	Points   map[string]*PointPlan
	Findings []*source.Problem // see Plan.Findings
	Resolved *resolve.Resolved // the pipeline with its overlays
	Params   map[string]string // given by the host
	Gates    map[string]bool
}

// NewPlan makes a plan of its parts.
func NewPlan(parts Parts) *Plan { return &Plan{parts: parts} }

// Parts are what the plan is made of. They are for package compile, and must not be changed once anybody runs the plan.
func (p *Plan) Parts() *Parts { return &p.parts }

// Pipeline is the name@version the plan was compiled from.
func (p *Plan) Pipeline() string { return p.parts.Pipeline }

// Position is where the pipeline is named.
func (p *Plan) Position() source.Position { return p.parts.Resolved.Pipeline.Name.Pos }

// NameAndVersion is the pipeline's name and version.
func (p *Plan) NameAndVersion() (name, version string) {
	name, version, _ = strings.Cut(p.parts.Pipeline, "@")
	return name, version
}

// Overlays names the overlays that are part of the plan, in the order in which they were applied.
func (p *Plan) Overlays() []string { return p.parts.Overlays }

// Gate reports whether a feature gate is on.
func (p *Plan) Gate(name string) bool { return p.parts.Gates[name] }

// Digest identifies the plan's content: its pipeline, rule sets, parameter values and gates. Hex, 12 digits.
func (p *Plan) Digest() string { return p.parts.Digest }

// RuleSets lists name@version of the rule sets that run at a point, in order.
func (p *Plan) RuleSets(point string) []string {
	var out []string
	if at := p.parts.Points[point]; at != nil {
		for _, s := range at.Sets {
			out = append(out, s.RuleSet.ID())
		}
	}
	return out
}

// Points lists the points at which at least one rule set runs, sorted.
func (p *Plan) Points() []string {
	var out []string
	for name, at := range p.parts.Points {
		if len(at.Sets) > 0 {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// PointPlan is what was type-checked for a point, and the code assembled from it.
type PointPlan struct {
	Point *registry.Point
	Sets  []*SetPlan
	known closure.Constants
	code  *pointCode

	LeftOut bool // it was not compiled: there is no code, and sets hold parameters only
}

// at is what runs at a point, nil where nothing does. It panics where the point was left out when the plan was compiled:
// to go on without its rules would be to go on without policy.
func (p *Plan) at(point string) *PointPlan {
	at := p.parts.Points[point]
	if at != nil && at.LeftOut {
		panic("engine: point " + point + " was left out when pipeline " + p.parts.Pipeline + " was compiled: name it among the points to compile")
	}
	return at
}

// SetPlan is one rule set compiled for one point with its parameters bound.
type SetPlan struct {
	RuleSet     *document.RuleSet
	Types       *registry.Registry
	Params      *lang.Record
	Gates       *lang.Record
	Stages      []*StagePlan
	Decisions   []*DecisionPlan
	Variables   *closure.Variables // of decisions
	Validations []*ValidationPlan
}

// StagePlan is a stage compiled for one scope and one value of its axis.
type StagePlan struct {
	Name  string
	Axis  *lang.AxisValue // that it is compiled for; nil = it has no axis
	Scope int             // index into Point.Scopes, -1 = run once
	Vars  *closure.Variables
	When  *closure.Program
	Rules []*RulePlan

	SkipOnError bool   // leave the stage when a rule fails
	Overlay     string // that it comes from; empty = none
}

// RulePlan is a rule of a stage.
type RulePlan struct {
	Name   string
	Pos    source.Position
	When   *closure.Program
	Writes []WritePlan
	Note   string

	Overlay string // that it comes from; empty = none
}

// WritePlan is one `set` (with an expression) or one `unset` (without).
type WritePlan struct {
	Field string // as written, for traces
	Typ   lang.Type
	Slot  closure.Slot
	Path  []int // field indexes below the variable
	Value *closure.Program
}

// DecisionPlan is one row of a table of decisions.
type DecisionPlan struct {
	Decision *document.Decision
	When     *closure.Program // nil = always
	Reason   *closure.Program // nil = the written reason
}

// ValidationPlan is a validation compiled for each of its places and one value of its axis.
type ValidationPlan struct {
	Validation *document.Validation
	Axis       *lang.AxisValue // that it is compiled for; nil = it has no axis
	Places     []*PlacedValidation
	Reads      []string // names of variables, in the condition and the expression
	Calls      []string // names of functions, there
}

// Findings are things in the rules that compile and are most likely mistakes, ordered by position.
func (p *Plan) Findings() []*source.Problem { return p.parts.Findings }
