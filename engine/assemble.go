package engine

import (
	"maps"

	"github.com/google/cel-go/common/types"
)

// pointCode is what runs at a point: its rules with everything folded that is known beforehand.
type pointCode struct {
	stages  []stageCode    // of all sets, in order
	rows    []decisionCode // of all sets, in order
	sources []source       // of steps in traces
}

// source gives steps of one origin, and of one write where they are changes, their number.
func (c *pointCode) source(o *origin, w *writePlan) int32 {
	c.sources = append(c.sources, source{o, w})
	return int32(len(c.sources) - 1)
}

type stageCode struct {
	names       *namespace
	origin      *origin // of the stage's own condition
	source      int32
	scope       int        // index into Point.Scopes, -1 = run once
	when        code[bool] // nil = always
	rules       []ruleCode
	skipOnError bool

	kinds []*stageCode // what to run instead, by Item.kind - 1; nil entries can do nothing
}

type ruleCode struct {
	origin *origin
	source int32
	when   code[bool] // nil = always
	writes []writeCode
}

type writeCode struct {
	plan   *writePlan
	source int32
	value  func(*frame, *cell) // nil = unset
}

type decisionCode struct {
	names  *namespace
	origin *origin
	source int32
	path   string
	plan   *Decision
	when   code[bool]   // nil = always
	reason code[string] // nil = the written reason
}

// stageCondition stands for a stage's own condition where a rule is named. No rule may be called so.
const stageCondition = "when"

// origin says where code comes from, for traces and failures.
type origin struct {
	set   *setPlan
	stage string
	rule  string
	pos   Position
	note  string

	axis    *axisValue // that the stage is compiled for; nil = it has no axis
	overlay string     // that it comes from; empty = none
	scope   int        // of the stage, index into Point.Scopes, -1 = none
}

// path names the rule as set/stage/rule, or set/rule where there is no stage, and of an axis the value.
func (o *origin) path() string {
	if o.stage == "" {
		return o.set.ruleSet.Name.Value + "/" + o.rule
	}
	return o.set.ruleSet.Name.Value + "/" + o.stage + "/" + o.rule + o.axis.suffix()
}

// assemble turns what was type-checked into code. With interpret, every expression is left to CEL's evaluator.
func (at *pointPlan) assemble(interpret bool) {
	at.code = &pointCode{}
	for _, set := range at.sets {
		for _, st := range set.stages {
			a := at.stageAssembler(set, st.vars, interpret)
			if s, ok := a.stage(st); ok {
				s.kinds = a.kinds(st, at.point)
				at.code.stages = append(at.code.stages, s)
			}
		}
		if len(set.decisions) > 0 {
			a := at.stageAssembler(set, set.variables, interpret)
			at.code.rows = append(at.code.rows, a.decisions()...)
		}
	}
}

// stageAssembler turns a stage, or a table of decisions, into code.
type stageAssembler struct {
	*assembler
	set     *setPlan
	code    *pointCode      // where it goes
	general *stageAssembler // for items of every kind; nil = this is it
	rules   []assembledRule
}

type assembledRule struct {
	code ruleCode
	ok   bool // it can fire
}

func (at *pointPlan) stageAssembler(set *setPlan, vars *variables, interpret bool) *stageAssembler {
	return &stageAssembler{set: set, code: at.code, assembler: set.assembler(vars, at.known, interpret)}
}

// assembler turns expressions of the set into code.
func (s *setPlan) assembler(vars *variables, known constants, interpret bool) *assembler {
	return &assembler{vars: vars, params: s.params, gates: s.gates, overloads: s.types.overloads, known: known, interpret: interpret}
}

// stage assembles a stage; ok is false when it can do nothing.
func (a *stageAssembler) stage(st *stagePlan) (out stageCode, ok bool) {
	out = stageCode{names: a.namespace(), scope: st.scope, skipOnError: st.skipOnError}
	out.origin = &origin{set: a.set, stage: st.name, axis: st.axis, rule: stageCondition, overlay: st.overlay, scope: st.scope}
	out.source = a.code.source(out.origin, nil)
	if out.when, ok = a.condition(st.when); !ok {
		return out, false
	}
	if out.when != nil {
		out.origin.pos = st.when.pos
	}
	for i, r := range st.rules {
		rule := a.rule(st, i, r)
		a.rules = append(a.rules, rule)
		if rule.ok {
			out.rules = append(out.rules, rule.code)
		}
	}
	// A condition that is not known may fail, and that is to be told.
	return out, out.when != nil || len(out.rules) > 0
}

func (a *stageAssembler) rule(st *stagePlan, i int, r *rulePlan) (out assembledRule) {
	special := a.isSpecial(r.when)
	for _, w := range r.writes {
		special = special || a.isSpecial(w.value)
	}
	if a.general != nil && !special {
		return a.general.rules[i]
	}
	if out.code.when, out.ok = a.condition(r.when); !out.ok {
		return out
	}
	out.code.origin = &origin{set: a.set, stage: st.name, axis: st.axis, rule: r.name, pos: r.pos, note: r.note, overlay: r.overlay, scope: st.scope}
	out.code.source = a.code.source(out.code.origin, nil)
	for i := range r.writes {
		w := writeCode{plan: &r.writes[i], source: a.code.source(out.code.origin, &r.writes[i])}
		if p := w.plan.value; p != nil {
			w.value = storing(a.expression(p), w.plan.typ)
		}
		out.code.writes = append(out.code.writes, w)
	}
	return out
}

// kinds assembles a stage for each kind of items, nil where it is the same for all.
func (a *stageAssembler) kinds(st *stagePlan, point *Point) []*stageCode {
	if st.scope < 0 || !st.reads(point.Scopes[st.scope].Name) || a.interpret {
		return nil
	}
	scope := &point.Scopes[st.scope]
	out := make([]*stageCode, len(scope.Kinds))
	for i, kind := range scope.Kinds {
		known := constants{scope.Name: types.String(kind)}
		maps.Copy(known, a.known)
		special := &stageAssembler{assembler: a.forKind(scope.Name, known), set: a.set, code: a.code, general: a}
		if s, ok := special.stage(st); ok {
			out[i] = &s
		}
	}
	return out
}

// decisions assembles a table up to the first row that always holds.
func (a *stageAssembler) decisions() []decisionCode {
	var out []decisionCode
	n := a.namespace()
	for _, d := range a.set.decisions {
		when, ok := a.condition(d.when)
		if !ok {
			continue
		}
		row := decisionCode{names: n, plan: d.decision, when: when}
		row.origin = &origin{set: a.set, rule: d.decision.Name.Value, pos: d.decision.Name.Pos, overlay: d.decision.Overlay, scope: -1}
		row.source = a.code.source(row.origin, nil)
		row.path = row.origin.path()
		if d.reason != nil {
			row.reason, _ = typed[string](a.expression(d.reason))
		}
		out = append(out, row)
		if when == nil {
			break
		}
	}
	return out
}

// condition assembles a when, nil for one that always holds; ok is false when it never does.
func (a *stageAssembler) condition(p *program) (c code[bool], ok bool) {
	if p == nil {
		return nil, true
	}
	n := a.expression(p)
	if isKnown(n, true) || isKnown(n, false) {
		return nil, isKnown(n, true)
	}
	return typed[bool](n)
}
