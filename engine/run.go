package engine

import "fmt"

// RunStages runs every rule set at a stage point over the facts, changing their writable records.
// Rules that fail leave their fields as they were and are returned; the run always goes on.
func (p *Plan) RunStages(point string, facts *Facts, trace *Trace) []*RuleError {
	at := p.points[point]
	if at == nil {
		return nil
	}
	f := newFrame(at.code, facts, trace)
	for i := range at.code.stages {
		st := &at.code.stages[i]
		f.begin(st.names)
		if st.scope < 0 {
			st.run(f)
			continue
		}
		for i, item := range facts.items[st.scope] {
			f.enter(i, item)
			st.run(f)
		}
	}
	failed := f.failed
	f.free()
	return failed
}

func (st *stageCode) run(f *frame) {
	applies, err := f.holds(st.when)
	if err != nil {
		f.failed = append(f.failed, f.ruleError(st.origin, st.source, err))
		return
	}
	if !applies {
		return
	}
	for i := range st.rules {
		r := &st.rules[i]
		wrote, err := r.run(f)
		if err != nil {
			f.failed = append(f.failed, f.ruleError(r.origin, r.source, err))
			if st.skipOnError {
				return
			}
		}
		if wrote {
			f.forget() // variables may depend on what the rule wrote
		}
	}
}

// run evaluates all right sides before it writes, so that one `set` is simultaneous.
func (r *ruleCode) run(f *frame) (wrote bool, err error) {
	applies, err := f.holds(r.when)
	if err != nil || !applies {
		return false, err
	}
	values := f.right(len(r.writes))
	for i := range r.writes {
		w := &r.writes[i]
		if w.value == nil {
			values[i] = cell{}
			continue
		}
		w.value(f, &values[i])
		if f.err != nil {
			return false, fmt.Errorf("set %s: %w", w.plan.field, f.failure())
		}
	}
	for i := range r.writes {
		w := &r.writes[i]
		field := w.plan.target(f)
		if f.trace != nil && !field.equal(&values[i]) {
			f.trace.change(w.source, f.index, field, &values[i])
		}
		*field = values[i]
	}
	if r.origin.note != "" {
		f.addNote(r.origin.note)
		if f.trace != nil && len(r.writes) == 0 {
			f.trace.note(r.source, f.index)
		}
	}
	return len(r.writes) > 0, nil
}

// target finds the field to write; records on the way to it come into being.
func (w *writePlan) target(f *frame) *cell {
	holder := f.values
	if w.slot.kind == itemSlot {
		holder = f.locals
	}
	record := holder[w.slot.index].ref.(*Record)
	last := len(w.path) - 1
	for _, i := range w.path[:last] {
		nested, ok := record.cells[i].ref.(*Record)
		if !ok {
			nested = record.schema.fields[i].Type.schema.New()
			record.cells[i] = cell{kind: refCell, ref: nested}
		}
		record = nested
	}
	return &record.cells[w.path[last]]
}

func (f *frame) addNote(text string) {
	if f.item != nil {
		f.item.Notes = append(f.item.Notes, text)
		return
	}
	f.facts.Notes = append(f.facts.Notes, text)
}

// holds evaluates a condition.
func (f *frame) holds(c *condition) (bool, error) {
	if c == nil {
		return true, nil
	}
	v := c.holds(f)
	if f.err != nil {
		return false, fmt.Errorf("when: %w", f.failure())
	}
	return v, nil
}

func (f *frame) ruleError(at *origin, source int32, err error) *RuleError {
	e := &RuleError{Path: at.path(), At: at.pos, Err: err}
	if f.item != nil {
		e.Item = f.item.Label
	}
	if f.trace != nil {
		f.trace.failure(source, f.index, err)
	}
	return e
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
	f := newFrame(at.code, facts, trace)
	verdict := f.decide(at)
	f.free()
	return verdict
}

func (f *frame) decide(at *pointPlan) Verdict {
	for i := range at.code.rows {
		d := &at.code.rows[i]
		if f.names != d.names {
			f.begin(d.names)
		}
		holds, err := f.holds(d.when)
		if err != nil {
			e := f.ruleError(d.origin, d.source, err)
			return Verdict{Do: at.point.FailSafe, Rule: e.Path, Reason: e.Error(), Err: e}
		}
		if !holds {
			continue
		}
		v := Verdict{Do: d.plan.Do.Value, Rule: d.path, Reason: d.plan.Reason}
		if d.reason != nil {
			if text := d.reason(f); f.failure() == nil {
				v.Reason = text
			}
		}
		if f.trace != nil {
			f.trace.decision(d.source, v)
		}
		if v.Reason == "" {
			v.Reason = d.origin.rule
		}
		return v
	}
	return Verdict{Do: at.point.FailSafe, Rule: "default", Reason: "no decision matched"}
}
