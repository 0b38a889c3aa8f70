package engine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// RunStages runs every rule set at a stage point and changes the facts' writable records. It
// returns rules that failed, which change nothing, and always runs the others.
func (p *Plan) RunStages(point string, facts *registry.Facts, trace *Trace) []*RuleError {
	at := p.at(point)
	if at == nil {
		return nil
	}
	r := newRun(at.code, facts, trace)
	r.runStages(at.code)
	failed := r.failed
	r.close(at.code)
	return failed
}

// run is one run of the rules at a point.
type run struct {
	*closure.Frame
	facts  *registry.Facts
	item   *registry.Item // nil outside scopes
	index  int32          // of the item
	trace  *Trace
	failed []*RuleError
	bounds []registry.Bound // that rules have set
	level  int              // of those that the stage sets

	accounts []account // of the payers
	paying   int32     // whose account the frame has

	rightSides []lang.Cell // scratch space
}

// runs are idle runs. Without them a decision takes three times as long, because it would allocate a frame and its memos.
var runs = sync.Pool{New: func() any { return &run{Frame: &closure.Frame{}} }}

func newRun(code *pointCode, facts *registry.Facts, trace *Trace) *run {
	facts.Show()
	trace.begin(code, facts)
	r := runs.Get().(*run)
	r.Values, r.facts, r.trace = facts.Values(), facts, trace
	r.accounts = append(r.accounts, make([]account, len(code.payers))...)
	return r
}

// free returns the run to the pool. It is not called after a panic.
func (r *run) free() {
	r.Clear()
	clear(r.rightSides)
	clear(r.bounds)
	*r = run{Frame: r.Frame, rightSides: r.rightSides, bounds: r.bounds[:0], accounts: r.accounts[:0]}
	runs.Put(r)
}

func (f *run) runStages(all *pointCode) {
	for i := range all.stages {
		st := &all.stages[i]
		f.Begin(st.names)
		f.item, f.level = nil, i
		if st.scope < 0 {
			st.run(f)
			continue
		}
		for i, item := range f.facts.ByScope()[st.scope] {
			f.index, f.item = int32(i), item
			f.Enter(item.Fields().Cells())
			st.run(f)
		}
	}
}

func (st *stageCode) run(f *run) {
	if !f.charge(st.origin.payer) || !f.holds(st.when, st.origin, st.source) {
		return
	}
	f.cover(st.origin, held)
	if st.solver != nil {
		f.solve(st.solver)
		return
	}
	for i := range st.rules {
		r := &st.rules[i]
		failures := len(f.failed)
		left := !f.charge(r.origin.payer)
		if !left && f.holds(r.when, r.origin, r.source) {
			r.run(f)
		}
		if st.skipOnError && (left || len(f.failed) > failures) {
			return
		}
	}
}

// holds evaluates a condition; nil always holds. A failing one is recorded and does not hold.
func (f *run) holds(when closure.Code[bool], at *origin, source int32) bool {
	holds := when == nil || when(f.Frame)
	if f.Check(); f.Err != nil {
		f.failRule(at, source, "when")
		return false
	}
	if !holds {
		f.cover(at, notHeld)
	}
	return holds
}

func (f *run) cover(at *origin, o outcome) {
	if f.trace != nil {
		f.trace.cover(at, o)
	}
}

// run evaluates all right sides before it writes, so that one `set` is simultaneous.
func (r *ruleCode) run(f *run) {
	if len(r.writes) > len(f.rightSides) {
		f.rightSides = make([]lang.Cell, len(r.writes))
	}
	values := f.rightSides[:len(r.writes)]
	for i := range r.writes {
		w := &r.writes[i]
		if w.value == nil {
			values[i] = lang.Cell{}
			continue
		}
		w.value(f.Frame, &values[i])
		if f.Check(); f.Err != nil {
			f.failRule(r.origin, r.source, "set "+w.plan.Field)
			return
		}
	}
	f.cover(r.origin, held)
	changed, bounds := false, false
	for i := range r.writes {
		w := &r.writes[i]
		if w.plan.Bound != nil {
			f.bound(w, &values[i], r.origin.note)
			bounds = true
			continue
		}
		field := w.plan.target(f)
		if field == nil {
			continue // nothing to unset
		}
		if f.trace != nil && !field.Equal(&values[i]) {
			changed = true
			f.trace.change(w.source, f.index, field, &values[i])
		}
		*field = values[i]
		if w.plan.Slot.Kind == closure.ItemSlot {
			f.item.Written = true
		} else {
			f.facts.Written = true
		}
	}
	if r.origin.note != "" && !bounds { // a bound is noted where it makes a difference
		f.addNote(r.origin.note)
		if f.trace != nil && !changed {
			f.trace.note(r.source, f.index)
		}
	}
	if len(r.writes) > 0 {
		f.Forget() // variables may depend on what the rule wrote
	}
}

// bound keeps what a rule knows of an amount, or takes back what rules knew before.
func (f *run) bound(w *writeCode, value *lang.Cell, note string) {
	field := w.plan.Path[len(w.plan.Path)-1]
	if value.Kind == lang.UnsetCell {
		f.bounds = slices.DeleteFunc(f.bounds, func(b registry.Bound) bool { return b.Item == f.item && b.Var == w.plan.Bound && b.Field == field })
		return
	}
	f.bounds = append(f.bounds, registry.Bound{Item: f.item, Var: w.plan.Bound, Field: field, Value: int64(value.Bits), Level: f.level, Note: note, Source: w.source})
}

// solve changes facts as a solver says.
func (f *run) solve(s *registry.Solver) {
	for _, c := range s.Solve(f.facts, f.bounds) {
		field := c.Item.Field(c.Var, c.Path)
		if c.Note != "" {
			c.Item.Notes = append(c.Item.Notes, c.Note)
		}
		if c.By != nil {
			switch changed := !field.Equal(&c.Value); {
			case f.trace == nil:
			case c.Var != c.By.Var.Of:
				f.trace.note(c.By.Source, int32(c.Index))
			case changed:
				f.trace.change(c.By.Source, int32(c.Index), field, &c.Value)
			}
			if c.By.Note != "" && !slices.Contains(c.Item.Notes, c.By.Note) {
				c.Item.Notes = append(c.Item.Notes, c.By.Note)
			}
		}
		*field, c.Item.Written = c.Value, true
	}
	f.Forget()
}

// target returns the field to write, creating missing records; nil if there is nothing to unset.
func (w *WritePlan) target(f *run) *lang.Cell {
	holder := f.Values
	if w.Slot.Kind == closure.ItemSlot {
		holder = f.Locals
	}
	record := registry.Writable(&holder[w.Slot.Index])
	last := len(w.Path) - 1
	for _, i := range w.Path[:last] {
		nested := &record.Cells()[i]
		if nested.Kind == lang.UnsetCell {
			if w.Value == nil {
				return nil
			}
			*nested = lang.Cell{Kind: lang.RefCell, Ref: record.Schema().Fields()[i].Type.Schema().Empty()}
		}
		record = registry.Writable(nested)
	}
	return &record.Cells()[w.Path[last]]
}

func (f *run) addNote(text string) {
	if f.item != nil {
		f.item.Notes = append(f.item.Notes, text)
		return
	}
	f.facts.Notes = append(f.facts.Notes, text)
}

// failRule records the failure of the expression just run.
func (f *run) failRule(at *origin, source int32, doing string) {
	err := fmt.Errorf("%s: %w", doing, f.Failure())
	e := &RuleError{Path: at.path(), At: at.pos}
	if closure.IsTooMuch(err) {
		f.accounts[at.payer].over, e.Slow = true, &Payer{at.set.RuleSet.Name.Value, at.overlay}
		err = fmt.Errorf("%w; %s is left out for the rest of it", err, e.Slow)
	}
	e.Err = err
	if f.item != nil {
		e.Item = f.item.Label
	}
	if f.trace != nil {
		f.trace.failure(source, f.index, err)
	}
	f.failed = append(f.failed, e)
}

// Verdict is the answer of a decision point.
type Verdict struct {
	Do     string // an outcome of the point
	Rule   string // set/decision; "default" when no row matched
	Class  string // of the decision; empty = none
	Reason string
	Until  string     // what has to happen for another decision; set with a trace only
	Err    *RuleError // set when a row failed and the point's fail-safe outcome was taken
}

// Decide returns the first row whose condition holds. If a condition fails, it returns the point's
// fail-safe outcome: skipping a guard that cannot be evaluated would be a guess.
func (p *Plan) Decide(point string, facts *registry.Facts, trace *Trace) Verdict {
	at := p.at(point)
	if at == nil {
		return Verdict{Do: facts.Point().FailSafe, Rule: "default", Reason: "no rule set plugs in at " + point}
	}
	r := newRun(at.code, facts, trace)
	verdict := r.decide(at)
	r.close(at.code)
	return verdict
}

func (f *run) decide(at *PointPlan) Verdict {
	for i := range at.code.rows {
		d := &at.code.rows[i]
		if f.Names != d.names {
			f.Begin(d.names)
		}
		f.charge(d.origin.payer)
		if !f.holds(d.when, d.origin, d.source) {
			if len(f.failed) == 0 {
				continue
			}
			e := f.failed[0]
			return Verdict{Do: at.Point.FailSafe, Rule: e.Path, Reason: e.Error(), Err: e}
		}
		f.cover(d.origin, held)
		v := Verdict{Do: d.plan.Do.Value, Rule: d.path, Class: d.plan.Class.Value, Reason: d.plan.Reason}
		if d.reason != nil {
			if text := d.reason(f.Frame); f.Failure() == nil {
				v.Reason = text
			}
		}
		if f.trace != nil {
			v.Until = d.plan.Until
			if d.until != nil {
				if text := d.until(f.Frame); f.Failure() == nil {
					v.Until = text
				}
			}
			f.trace.decision(d.source, v)
		}
		if v.Reason == "" {
			v.Reason = d.origin.rule
		}
		return v
	}
	return Verdict{Do: at.Point.FailSafe, Rule: "default", Reason: "no decision matched"}
}

// Payer is who pays for what code takes of a run: a rule set, or an overlay for what it put there. Each may take as much as
// lang.MaxRunSteps and lang.MaxRunBytes, so that none leaves too little to another.
type Payer struct {
	RuleSet string
	Overlay string // empty = none
}

// String names what is left out of a run when the payer has taken too much of it.
func (p Payer) String() string {
	if p.Overlay != "" {
		return fmt.Sprintf("what RuleOverlay %s put into rule set %s", p.Overlay, p.RuleSet)
	}
	return "rule set " + p.RuleSet
}

// account is what a payer's code has taken in a run.
type account struct {
	closure.Cost
	over bool // it may not take more, and is left out from there on
}

// charge makes a payer pay for what runs next, and reports false if it may not take more.
func (f *run) charge(to int32) bool {
	if to != f.paying {
		f.settle()
		f.paying, f.Steps, f.Bytes = to, f.accounts[to].Steps, f.accounts[to].Bytes
	}
	return !f.accounts[to].over
}

// close notes what the run took, and returns it to the pool.
func (r *run) close(code *pointCode) {
	if r.trace != nil {
		r.settle()
		for i, p := range code.payers {
			r.trace.spent(p, r.accounts[i].Cost)
		}
	}
	r.free()
}

// settle enters what the current payer has taken.
func (r *run) settle() {
	if len(r.accounts) > 0 {
		r.accounts[r.paying].Cost = closure.Cost{Steps: r.Steps, Bytes: r.Bytes}
	}
}
