package engine

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"text/tabwriter"

	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// Step is one thing a rule did: a change of a field, a note, a decision, or a failure.
type Step struct {
	RuleSet string `json:"ruleSet"`
	Version string `json:"version"`
	Overlay string `json:"overlay,omitempty"` // source of the rule
	Stage   string `json:"stage,omitempty"`
	Rule    string `json:"rule"`
	At      string `json:"at"`             // file:line:col of the rule
	Item    string `json:"item,omitempty"` // which bound, container, …
	Field   string `json:"field,omitempty"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Reason  string `json:"reason,omitempty"` // the rule's note
	Error   string `json:"error,omitempty"`
}

// Path is set/stage/rule, or set/rule without a stage.
func (s Step) Path() string {
	if s.Stage == "" {
		return s.RuleSet + "/" + s.Rule
	}
	return s.RuleSet + "/" + s.Stage + "/" + s.Rule
}

// Trace records what fired during runs. A nil *Trace records nothing and costs nothing. It keeps
// numbers and the facts of the runs, and formats steps only when read: most traces never are.
type Trace struct {
	// Coverage collects the outcomes that were reached; nil = none.
	Coverage *Coverage

	runs  []tracedRun
	marks []mark
	rest  []rest
	taken map[Payer]closure.Cost
}

// Spent returns the most that the rules of a payer took in one run, of what lang.MaxRunSteps and lang.MaxRunBytes allow.
func (t *Trace) Spent() (steps, bytes map[Payer]int64) {
	steps, bytes = map[Payer]int64{}, map[Payer]int64{}
	for p, c := range t.taken {
		steps[p], bytes[p] = c.Steps, c.Bytes
	}
	return steps, bytes
}

func (t *Trace) spent(p Payer, c closure.Cost) {
	if t.taken == nil {
		t.taken = map[Payer]closure.Cost{}
	}
	most := t.taken[p]
	t.taken[p] = closure.Cost{Steps: max(most.Steps, c.Steps), Bytes: max(most.Bytes, c.Bytes)}
}

type tracedRun struct {
	code  *pointCode
	facts *registry.Facts
	first int // index of its first mark
}

// mark is an unformatted step. It holds no pointers, so the garbage collector skips it.
type mark struct {
	source   int32 // index into pointCode.sources
	item     int32 // index into the items of the stage's scope
	rest     int32 // index into Trace.rest, from 1; 0 = none
	fromKind lang.CellKind
	toKind   lang.CellKind
	from, to uint64
}

// rest is the part of a mark that few steps have.
type rest struct {
	from, to ref.Val // values other than numbers and booleans
	verdict  Verdict
	err      error
}

// stepSource is where a step comes from.
type stepSource struct {
	*origin
	write *WritePlan // nil unless the step is a write
}

// Len is the number of steps so far, and the index of the next one.
func (t *Trace) Len() int { return len(t.marks) }

// Steps formats what fired, in order.
func (t *Trace) Steps() []Step {
	var out []Step
	t.each(func(i int, run *tracedRun) { out = append(out, t.step(i, run)) })
	return out
}

// Runs yields the point and facts of each run, in order.
func (t *Trace) Runs() iter.Seq2[string, *registry.Facts] {
	return func(yield func(string, *registry.Facts) bool) {
		for _, run := range t.runs {
			if !yield(run.facts.Point().Name, run.facts) {
				return
			}
		}
	}
}

// MarshalJSON implements json.Marshaler.
func (t *Trace) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ Steps []Step }{t.Steps()})
}

// Last returns the last step that changed a field of an item; ok is false when none did.
func (t *Trace) Last(item, field string) (step Step, ok bool) {
	t.each(func(i int, run *tracedRun) {
		from := run.code.sources[t.marks[i].source]
		if from.write != nil && from.write.Field == field && run.label(&t.marks[i]) == item {
			step, ok = t.step(i, run), true
		}
	})
	return step, ok
}

// Blame returns err as a failure of the rule that last changed a field of one of some items, one of an overlay if any did; nil if
// no rule changed it.
func (t *Trace) Blame(field string, err error, items ...string) (out *RuleError) {
	overlaid := false
	t.each(func(i int, run *tracedRun) {
		at, item := run.code.sources[t.marks[i].source], run.label(&t.marks[i])
		if at.write == nil || at.write.Field != field || !slices.Contains(items, item) || overlaid && at.overlay == "" {
			return
		}
		overlaid = at.overlay != ""
		out = &RuleError{Path: t.step(i, run).Path(), At: at.pos, Item: item, Err: err}
	})
	return out
}

func (t *Trace) each(visit func(i int, run *tracedRun)) {
	if t == nil {
		return
	}
	run := 0
	for i := range t.marks {
		for run+1 < len(t.runs) && t.runs[run+1].first <= i {
			run++
		}
		visit(i, &t.runs[run])
	}
}

func (r *tracedRun) label(m *mark) string {
	scope := r.code.sources[m.source].scope
	if scope < 0 {
		return ""
	}
	return r.facts.ByScope()[scope][m.item].Label
}

func (t *Trace) step(i int, run *tracedRun) Step {
	m := &t.marks[i]
	at := run.code.sources[m.source]
	set := at.set.RuleSet
	s := Step{RuleSet: set.Name.Value, Version: set.Version.Value, Overlay: at.overlay, Stage: at.stage, Rule: at.rule, At: at.pos.String(), Item: run.label(m)}
	var more rest
	if m.rest > 0 {
		more = t.rest[m.rest-1]
	}
	switch {
	case more.err != nil:
		s.Error = more.err.Error()
	case at.write != nil && (m.fromKind != lang.UnsetCell || m.toKind != lang.UnsetCell):
		from, to := lang.Cell{Kind: m.fromKind, Bits: m.from, Ref: more.from}, lang.Cell{Kind: m.toKind, Bits: m.to, Ref: more.to}
		s.Field, s.From, s.To = at.write.Field, at.set.Types.Format(at.write.Typ, from.Val()), at.set.Types.Format(at.write.Typ, to.Val())
		s.Reason = at.note
	case more.verdict.Do != "":
		s.To, s.Reason = more.verdict.Do, more.verdict.Reason
	default:
		s.Reason = at.note
	}
	return s
}

func (t *Trace) begin(code *pointCode, facts *registry.Facts) {
	if t == nil {
		return
	}
	if t.marks == nil {
		t.runs, t.marks = make([]tracedRun, 0, 2), make([]mark, 0, 32)
	}
	t.runs = append(t.runs, tracedRun{code: code, facts: facts, first: len(t.marks)})
}

func (t *Trace) change(source, item int32, from, to *lang.Cell) {
	m := mark{source: source, item: item, fromKind: from.Kind, toKind: to.Kind, from: from.Bits, to: to.Bits}
	if from.Kind == lang.RefCell || to.Kind == lang.RefCell {
		t.rest = append(t.rest, rest{from: from.Ref, to: to.Ref})
		m.rest = int32(len(t.rest))
	}
	t.marks = append(t.marks, m)
}

func (t *Trace) note(source, item int32) {
	t.marks = append(t.marks, mark{source: source, item: item})
}

func (t *Trace) decision(source int32, v Verdict) {
	t.rest = append(t.rest, rest{verdict: v})
	t.marks = append(t.marks, mark{source: source, rest: int32(len(t.rest))})
}

func (t *Trace) failure(source, item int32, err error) {
	t.rest = append(t.rest, rest{err: err})
	t.marks = append(t.marks, mark{source: source, item: item, rest: int32(len(t.rest))})
}

// RuleError is a rule that failed at run time. The fields it sets keep their values.
type RuleError struct {
	Path string // set/stage/rule
	At   source.Position
	Item string
	Err  error
	Slow *Payer // who took more than a run allows, and was left out for the rest of it; nil = the failure is another
}

// Error names the rule, its position and the failure.
func (e *RuleError) Error() string {
	on := ""
	if e.Item != "" {
		on = " for " + e.Item
	}
	return fmt.Sprintf("rule %s (%s) failed%s: %v", e.Path, e.At, on, e.Err)
}

// Unwrap returns the cause.
func (e *RuleError) Unwrap() error { return e.Err }

// Explain prints steps as a table: what changed, from what to what, by which rule and why.
func Explain(w io.Writer, indent string, steps []Step) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%sITEM\tFIELD\tFROM\tTO\tRULE\tAT\tWHY\n", indent)
	for _, s := range steps {
		field, from, to, why := s.Field, s.From, s.To, s.Reason
		switch {
		case s.Error != "":
			why = "failed: " + s.Error
		case field == "" && to != "":
			field = "do"
		}
		if s.Overlay != "" {
			why = trimJoin(why, "overlay "+s.Overlay)
		}
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", indent, dash(s.Item), dash(field), dash(from), dash(to), s.Path(), s.At, dash(why))
	}
	return table.Flush()
}

func trimJoin(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
