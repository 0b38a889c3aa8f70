package engine

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// RunStages runs every rule set at a stage point over the facts, changing their writable records.
// Rules that fail leave their fields as they were and are returned; the run always goes on.
func (p *Plan) RunStages(point string, facts *Facts, trace *Trace) []*RuleError {
	at := p.points[point]
	if at == nil {
		return nil
	}
	var failed []*RuleError
	for _, set := range at.sets {
		for _, st := range set.stages {
			if st.scope < 0 {
				failed = append(failed, st.run(set, facts, nil, trace)...)
				continue
			}
			for _, item := range facts.items[st.scope] {
				failed = append(failed, st.run(set, facts, item, trace)...)
			}
		}
	}
	return failed
}

func (st *stagePlan) run(set *setPlan, facts *Facts, item *Item, trace *Trace) []*RuleError {
	f := &frame{set: set, vars: st.vars, facts: facts, item: item}
	if n := len(st.vars.programs); n > 0 {
		f.memo = make([]ref.Val, n)
	}
	applies, err := f.holds(st.when)
	if err != nil {
		return []*RuleError{f.failure(st.name, "when", st.when.pos, err, trace)}
	}
	trace.cover(set, st.name, "", whether(applies))
	if !applies {
		return nil
	}
	var failed []*RuleError
	for _, r := range st.rules {
		wrote, err := r.run(f, st.name, trace)
		if err != nil {
			failed = append(failed, f.failure(st.name, r.name, r.pos, err, trace))
			if st.skipOnError {
				return failed
			}
		}
		if wrote {
			clear(f.memo) // variables may depend on what the rule wrote
		}
	}
	return failed
}

// run evaluates all right sides before it writes, so that one `set` is simultaneous.
func (r *rulePlan) run(f *frame, stage string, trace *Trace) (wrote bool, err error) {
	applies, err := f.holds(r.when)
	if err != nil {
		return false, err
	}
	trace.cover(f.set, stage, r.name, whether(applies))
	if !applies {
		return false, nil
	}
	var buffer [4]ref.Val
	values := buffer[:0]
	for i := range r.writes {
		var v ref.Val
		if p := r.writes[i].value; p != nil {
			if v, err = f.eval(p); err != nil {
				return false, fmt.Errorf("set %s: %w", r.writes[i].field, err)
			}
		}
		values = append(values, v)
	}
	for i := range r.writes {
		w := &r.writes[i]
		from := w.swap(f, values[i])
		if trace != nil && !same(from, values[i]) {
			trace.change(f.set, stage, r, f.item, w, from, values[i])
		}
	}
	if r.note != "" {
		f.addNote(r.note)
		if trace != nil && len(r.writes) == 0 {
			trace.step(f.set, stage, r.name, r.pos, f.item).Reason = r.note
		}
	}
	return len(r.writes) > 0, nil
}

// swap stores a value (nil = unset) and returns the one before.
func (w *writePlan) swap(f *frame, v ref.Val) (from ref.Val) {
	var holder ref.Val
	if w.slot.kind == itemSlot {
		holder = f.item.values[w.slot.index]
	} else {
		holder = f.facts.values[w.slot.index]
	}
	record := holder.(*Record)
	last := len(w.path) - 1
	for _, i := range w.path[:last] {
		nested, ok := record.values[i].(*Record)
		if !ok {
			nested = record.schema.fields[i].Type.schema.New()
			record.values[i] = nested
		}
		record = nested
	}
	from = record.values[w.path[last]]
	record.values[w.path[last]] = v
	return from
}

func (f *frame) addNote(text string) {
	if f.item != nil {
		f.item.Notes = append(f.item.Notes, text)
		return
	}
	f.facts.Notes = append(f.facts.Notes, text)
}

// holds evaluates a condition; a nil condition always holds.
func (f *frame) holds(p *program) (bool, error) {
	if p == nil {
		return true, nil
	}
	v, err := f.eval(p)
	if err != nil {
		return false, fmt.Errorf("when: %w", err)
	}
	return v == types.True, nil
}

func (f *frame) eval(p *program) (ref.Val, error) {
	v, _, err := p.prg.Eval(f)
	return v, err
}

func (f *frame) failure(stage, rule string, pos Position, err error, trace *Trace) *RuleError {
	path := f.set.ruleSet.Name.Value + "/" + rule
	if stage != "" {
		path = f.set.ruleSet.Name.Value + "/" + stage + "/" + rule
	}
	e := &RuleError{Path: path, At: pos, Err: err}
	if f.item != nil {
		e.Item = f.item.Label
	}
	if trace != nil {
		trace.step(f.set, stage, rule, pos, f.item).Error = err.Error()
	}
	return e
}

func same(a, b ref.Val) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Equal(b) == types.True
}

// Verdict is the answer of a decision point.
type Verdict struct {
	Do     string // an outcome of the point
	Rule   string // set/decision; "default" when no row matched
	Reason string
	Err    *RuleError // set when a row failed and the point's fail-safe outcome was taken
}

// Decide returns the first row whose condition holds. A row that fails ends the search with the point's
// fail-safe outcome: going on past a guard that could not be read would be a guess.
func (p *Plan) Decide(point string, facts *Facts, trace *Trace) Verdict {
	at := p.points[point]
	if at == nil {
		return Verdict{Do: facts.point.FailSafe, Rule: "default", Reason: "no rule set plugs in at " + point}
	}
	for _, set := range at.sets {
		f := &frame{set: set, vars: set.variables, facts: facts, memo: make([]ref.Val, len(set.variables.programs))}
		for _, d := range set.decisions {
			pos := d.decision.Name.Pos
			name := d.decision.Name.Value
			holds, err := f.holds(d.when)
			if err != nil {
				e := f.failure("", name, pos, err, trace)
				return Verdict{Do: at.point.FailSafe, Rule: e.Path, Reason: e.Error(), Err: e}
			}
			trace.cover(set, "", name, whether(holds))
			if !holds {
				continue
			}
			v := Verdict{Do: d.decision.Do.Value, Rule: set.ruleSet.Name.Value + "/" + name, Reason: d.decision.Reason}
			if d.reason != nil {
				if text, err := f.eval(d.reason); err == nil {
					v.Reason = string(text.(types.String))
				}
			}
			if trace != nil {
				s := trace.step(set, "", name, pos, nil)
				s.To, s.Reason = v.Do, v.Reason
			}
			if v.Reason == "" {
				v.Reason = name
			}
			return v
		}
	}
	return Verdict{Do: at.point.FailSafe, Rule: "default", Reason: "no decision matched"}
}
