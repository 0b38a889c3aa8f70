package engine

import (
	"slices"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// pointCode is the folded code that runs at a point.
type pointCode struct {
	stages  []stageCode    // of all sets, in order
	rows    []decisionCode // of all sets, in order
	sources []stepSource   // of trace steps
	payers  []Payer
}

// paying returns the index of who pays for code.
func (c *pointCode) paying(set *SetPlan, overlay string) int32 {
	p := Payer{set.RuleSet.Name.Value, overlay}
	i := slices.Index(c.payers, p)
	if i < 0 {
		i, c.payers = len(c.payers), append(c.payers, p)
	}
	return int32(i)
}

// source registers the origin of trace steps and returns its index; w is nil unless they write.
func (c *pointCode) source(o *origin, w *WritePlan) int32 {
	c.sources = append(c.sources, stepSource{o, w})
	return int32(len(c.sources) - 1)
}

type stageCode struct {
	names       *closure.Namespace
	origin      *origin // of the stage's own condition
	source      int32
	scope       int                // index into Point.Scopes, -1 = run once
	when        closure.Code[bool] // nil = always
	rules       []ruleCode
	skipOnError bool
	solver      *registry.Solver // in place of rules; nil = none
}

type ruleCode struct {
	origin *origin
	source int32
	when   closure.Code[bool] // nil = always
	writes []writeCode
}

type writeCode struct {
	plan   *WritePlan
	source int32
	value  func(*closure.Frame, *lang.Cell) // nil = unset
}

type decisionCode struct {
	names  *closure.Namespace
	origin *origin
	source int32
	path   string
	plan   *document.Decision
	when   closure.Code[bool]   // nil = always
	reason closure.Code[string] // nil = the written reason
	until  closure.Code[string] // nil = the written text
}

// stageCondition names a stage's own condition where a rule is expected. It is reserved.
const stageCondition = "when"

// origin is where code comes from, for traces and failures.
type origin struct {
	set   *SetPlan
	stage string
	rule  string
	pos   source.Position
	note  string

	axis    *lang.AxisValue // of the stage; nil = none
	overlay string          // source overlay; empty = none
	scope   int             // index into Point.Scopes; -1 = none
	payer   int32           // index into pointCode.payers
}

// path is set/stage/rule, or set/rule without a stage, plus the axis value.
func (o *origin) path() string {
	if o.stage == "" {
		return o.set.RuleSet.Name.Value + "/" + o.rule
	}
	return o.set.RuleSet.Name.Value + "/" + o.stage + "/" + o.rule + o.axis.Suffix()
}

// Assemble turns type-checked rules into code. With interpret, CEL evaluates every expression.
func (at *PointPlan) Assemble(interpret bool) {
	at.code, at.reads = &pointCode{}, map[string]bool{}
	for _, set := range at.Sets {
		set.each(func(p *closure.Program) {
			for _, name := range p.Reads {
				at.reads[name] = true
			}
		})
		for _, st := range set.Stages {
			a := at.stageAssembler(set, st.Vars, interpret)
			if s, ok := a.stage(st); ok {
				at.code.stages = append(at.code.stages, s)
			}
		}
		if len(set.Decisions) > 0 {
			a := at.stageAssembler(set, set.Variables, interpret)
			at.code.rows = append(at.code.rows, a.decisions()...)
		}
	}
}

// stageAssembler assembles a stage or a decision table.
type stageAssembler struct {
	*closure.Assembler
	set   *SetPlan
	point *registry.Point
	code  *pointCode // output
}

func (at *PointPlan) stageAssembler(set *SetPlan, vars *closure.Variables, interpret bool) *stageAssembler {
	return &stageAssembler{set: set, point: at.Point, code: at.code, Assembler: set.assembler(vars, interpret)}
}

func (s *SetPlan) assembler(vars *closure.Variables, interpret bool) *closure.Assembler {
	return &closure.Assembler{Vars: vars, Params: s.Params, Gates: s.Gates, Overloads: s.Types.Overloads(), Interpret: interpret}
}

// stage returns ok = false for a stage that can do nothing.
func (a *stageAssembler) stage(st *StagePlan) (out stageCode, ok bool) {
	out = stageCode{names: a.Namespace(), scope: st.Scope, skipOnError: st.SkipOnError, solver: st.Solver}
	out.origin = &origin{set: a.set, stage: st.Name, axis: st.Axis, rule: stageCondition, overlay: st.Overlay, scope: st.Scope, payer: a.code.paying(a.set, st.Overlay)}
	out.source = a.code.source(out.origin, nil)
	if out.when, ok = a.condition(st.When); !ok {
		return out, false
	}
	if out.when != nil {
		out.origin.pos = st.When.Pos
	}
	for _, r := range st.Rules {
		if rule, ok := a.rule(st, r); ok {
			out.rules = append(out.rules, rule)
		}
	}
	// Keep an unfolded condition without rules: it may fail, and failures are reported.
	return out, out.when != nil || len(out.rules) > 0 || st.Solver != nil
}

// rule returns ok = false for a rule that cannot fire.
func (a *stageAssembler) rule(st *StagePlan, r *RulePlan) (out ruleCode, ok bool) {
	if out.when, ok = a.condition(r.When); !ok {
		return out, false
	}
	out.origin = &origin{set: a.set, stage: st.Name, axis: st.Axis, rule: r.Name, pos: r.Pos, note: r.Note, overlay: r.Overlay, scope: st.Scope, payer: a.code.paying(a.set, r.Overlay)}
	out.source = a.code.source(out.origin, nil)
	for i := range r.Writes {
		w := writeCode{plan: &r.Writes[i]}
		from := out.origin
		if b := w.plan.Bound; b != nil && b.Scope != "" { // a step is about an item
			of := *from
			of.scope = a.point.ScopeIndex()[b.Scope]
			from = &of
		}
		w.source = a.code.source(from, w.plan)
		if p := w.plan.Value; p != nil {
			w.value = closure.Storing(a.Expression(p))
		}
		out.writes = append(out.writes, w)
	}
	return out, true
}

// decisions assembles a table up to the first row that always holds.
func (a *stageAssembler) decisions() []decisionCode {
	var out []decisionCode
	n := a.Namespace()
	for _, d := range a.set.Decisions {
		when, ok := a.condition(d.When)
		if !ok {
			continue
		}
		row := decisionCode{names: n, plan: d.Decision, when: when}
		row.origin = &origin{set: a.set, rule: d.Decision.Name.Value, pos: d.Decision.Name.Pos, overlay: d.Decision.Overlay, scope: -1, payer: a.code.paying(a.set, d.Decision.Overlay)}
		row.source = a.code.source(row.origin, nil)
		row.path = row.origin.path()
		if d.Reason != nil {
			row.reason, _ = closure.Typed[string](a.Expression(d.Reason))
		}
		if d.Until != nil {
			row.until, _ = closure.Typed[string](a.Expression(d.Until))
		}
		out = append(out, row)
		if when == nil {
			break
		}
	}
	return out
}

// condition returns nil if the condition always holds, and ok = false if it never does.
func (a *stageAssembler) condition(p *closure.Program) (c closure.Code[bool], ok bool) {
	if p == nil {
		return nil, true
	}
	n := a.Expression(p)
	if closure.IsKnown(n, true) || closure.IsKnown(n, false) {
		return nil, closure.IsKnown(n, true)
	}
	return closure.Typed[bool](n)
}
