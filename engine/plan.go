package engine

import (
	"slices"
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

// Parts are the contents of a Plan.
type Parts struct {
	Pipeline string   // name@version
	Digest   string   // see Plan.Digest
	Overlays []string // applied, in order
	Points   map[string]*PointPlan
	Findings []*source.Problem // see Plan.Findings
	Resolved *resolve.Resolved // the pipeline with its overlays
	Params   map[string]string // set by the host
	Gates    map[string]bool
}

// NewPlan builds a plan from its parts.
func NewPlan(parts Parts) *Plan { return &Plan{parts: parts} }

// Parts returns the plan's parts for package compile. Do not change them once the plan runs.
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

// Overlays names the plan's overlays in the order they apply.
func (p *Plan) Overlays() []string { return p.parts.Overlays }

// OverlaysAt names the overlays that changed or added rule sets at some points, in the order they apply.
func (p *Plan) OverlaysAt(points ...string) (out []string) {
	if len(p.parts.Overlays) == 0 {
		return nil
	}
	for i := range p.parts.Resolved.Points {
		at := &p.parts.Resolved.Points[i]
		if !slices.Contains(points, at.Point.Value) {
			continue
		}
		for j := range at.Sets {
			for _, o := range append(slices.Clip(at.Sets[j].By), at.Sets[j].Added) {
				if o != nil && !slices.Contains(out, o.Name.Value) {
					out = append(out, o.Name.Value)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return slices.Index(p.parts.Overlays, a) - slices.Index(p.parts.Overlays, b) })
	return out
}

// Gate reports whether a feature gate is on.
func (p *Plan) Gate(name string) bool { return p.parts.Gates[name] }

// Digest identifies the plan's content: pipeline, rule sets, parameters and gates. 12 hex digits.
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

// ReadsParam reports whether a rule set at a point reads a parameter of the pipeline, such as maximum or maximum.cpu.
func (p *Plan) ReadsParam(point, param string) bool {
	name, _ := document.CutParam(param)
	at := p.parts.Points[point]
	return at != nil && slices.ContainsFunc(at.Sets, func(s *SetPlan) bool { return p.parts.Resolved.Pipeline.ReadsParams(s.RuleSet)[name] })
}

// Points lists the points at which at least one rule set runs, sorted.
func (p *Plan) Points() []string {
	var out []string
	for name, at := range p.parts.Points {
		if len(at.Sets) > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// PointPlan holds a point's type-checked rules and the code assembled from them.
type PointPlan struct {
	Point *registry.Point
	Sets  []*SetPlan
	code  *pointCode
	reads map[string]bool // names of variables, including loop variables

	LeftOut bool // not compiled: no code, and sets hold only parameters
	// Steps is the worst case of one run of the stages or decisions; of a point that is left out, of
	// those that overlays changed.
	Steps int64
}

// at returns what runs at a point, nil for nothing. It panics if the point was not compiled:
// skipping its rules would mean running without policy.
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
	Axis  *lang.AxisValue // nil = none
	Scope int             // index into Point.Scopes, -1 = run once
	Vars  *closure.Variables
	When  *closure.Program
	Rules []*RulePlan

	Solver      *registry.Solver // in place of rules; nil = none
	SkipOnError bool             // leave the stage when a rule fails
	Overlay     string           // source overlay; empty = none
}

// RulePlan is a rule of a stage.
type RulePlan struct {
	Name   string
	Pos    source.Position
	When   *closure.Program
	Writes []WritePlan
	Note   string

	Overlay string // source overlay; empty = none
}

// WritePlan is one `set` (with an expression) or one `unset` (without).
type WritePlan struct {
	Field string             // as written, for traces; of a bound, what it bounds
	Bound *registry.BoundVar // the write is a bound; nil = it changes a fact
	Typ   lang.Type
	Slot  closure.Slot
	Path  []int // field indexes below the variable
	Value *closure.Program
}

// DecisionPlan is one row of a decision table.
type DecisionPlan struct {
	Decision *document.Decision
	When     *closure.Program // nil = always
	Reason   *closure.Program // nil = the literal reason
	Until    *closure.Program // nil = the literal text
}

// ValidationPlan is a validation compiled for each of its places and one value of its axis.
type ValidationPlan struct {
	Validation *document.Validation // in plain CEL
	Axis       *lang.AxisValue      // nil = none
	Places     []*PlacedValidation
	Reads      []string // variables that the condition and expression read
	Calls      []string // functions that they call
}

// Findings are likely mistakes in rules that compile, ordered by position.
func (p *Plan) Findings() []*source.Problem { return p.parts.Findings }

// Interpreted returns the plan with every expression evaluated by CEL, for tests to compare with p.
func (p *Plan) Interpreted() *Plan {
	out := *p
	out.parts.Points = make(map[string]*PointPlan, len(p.parts.Points))
	for name, at := range p.parts.Points {
		if at.LeftOut {
			out.parts.Points[name] = at
			continue
		}
		interpreted := *at
		interpreted.Assemble(true)
		out.parts.Points[name] = &interpreted
	}
	return &out
}

// Reads reports whether any stage or decision at a point reads a variable of the point.
func (p *Plan) Reads(point, variable string) bool {
	at := p.at(point)
	return at != nil && at.reads[variable]
}

// each visits the expressions of stages and decisions.
func (s *SetPlan) each(visit func(*closure.Program)) {
	if s.Variables != nil {
		visitAll(visit, s.Variables.Programs...)
	}
	for _, d := range s.Decisions {
		visitAll(visit, d.When, d.Reason, d.Until)
	}
	for _, st := range s.Stages {
		st.each(visit)
	}
}

func (st *StagePlan) each(visit func(*closure.Program)) {
	visitAll(visit, st.Vars.Programs...)
	visitAll(visit, st.When)
	for _, r := range st.Rules {
		visitAll(visit, r.When)
		for _, w := range r.Writes {
			visitAll(visit, w.Value)
		}
	}
}

// visitAll skips nil expressions.
func visitAll(visit func(*closure.Program), list ...*closure.Program) {
	for _, p := range list {
		if p != nil {
			visit(p)
		}
	}
}
