package engine

import (
	"encoding/json"
	"fmt"

	"github.com/google/cel-go/common/types/ref"
)

// Step is one thing a rule did: a change of a field, a note, a decision, or a failure.
type Step struct {
	RuleSet string `json:"ruleSet"`
	Version string `json:"version"`
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

// Path names the rule as set/stage/rule, or set/rule where there is no stage.
func (s Step) Path() string {
	if s.Stage == "" {
		return s.RuleSet + "/" + s.Rule
	}
	return s.RuleSet + "/" + s.Stage + "/" + s.Rule
}

// Trace records what fired during a run. A nil *Trace records nothing and costs nothing. A trace keeps values as they
// are and writes them out when it is read, which most traces never are.
type Trace struct {
	marks []mark
}

// mark is a step before it is written out. It is small: a run leaves dozens.
type mark struct {
	at       *origin
	item     string
	write    *writePlan // of a change
	from, to uint64
	fromKind cellKind
	toKind   cellKind
	rest     *rest
}

// rest is what few steps have.
type rest struct {
	from, to ref.Val // of a change of anything but a number or a boolean
	verdict  Verdict
	err      error
}

// Steps writes out what fired, in order.
func (t *Trace) Steps() []Step {
	if t == nil {
		return nil
	}
	var out []Step
	for i := range t.marks {
		out = append(out, t.marks[i].step())
	}
	return out
}

// MarshalJSON writes the steps out.
func (t *Trace) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ Steps []Step }{t.Steps()})
}

// Last returns the last step that changed a field of an item; ok is false when none did.
func (t *Trace) Last(item, field string) (step Step, ok bool) {
	if t == nil {
		return Step{}, false
	}
	for i := len(t.marks) - 1; i >= 0; i-- {
		if m := &t.marks[i]; m.item == item && m.write != nil && m.write.field == field {
			return m.step(), true
		}
	}
	return Step{}, false
}

func (m *mark) step() Step {
	set := m.at.set.ruleSet
	s := Step{RuleSet: set.Name.Value, Version: set.Version.Value, Stage: m.at.stage, Rule: m.at.rule, At: m.at.pos.String(), Item: m.item}
	from, to := cell{kind: m.fromKind, bits: m.from}, cell{kind: m.toKind, bits: m.to}
	if m.rest != nil {
		from.ref, to.ref = m.rest.from, m.rest.to
	}
	switch {
	case m.write != nil:
		format := m.at.set.types.format
		s.Field, s.From, s.To, s.Reason = m.write.field, format(m.write.typ, from.val()), format(m.write.typ, to.val()), m.at.note
	case m.rest == nil:
		s.Reason = m.at.note
	case m.rest.err != nil:
		s.Error = m.rest.err.Error()
	default:
		s.To, s.Reason = m.rest.verdict.Do, m.rest.verdict.Reason
	}
	return s
}

func (t *Trace) mark(at *origin, item *Item) *mark {
	if t.marks == nil {
		t.marks = make([]mark, 0, 32)
	}
	m := mark{at: at}
	if item != nil {
		m.item = item.Label
	}
	t.marks = append(t.marks, m)
	return &t.marks[len(t.marks)-1]
}

func (t *Trace) change(at *origin, item *Item, w *writePlan, from, to *cell) {
	m := t.mark(at, item)
	m.write, m.from, m.to, m.fromKind, m.toKind = w, from.bits, to.bits, from.kind, to.kind
	if from.kind == refCell || to.kind == refCell {
		m.rest = &rest{from: from.ref, to: to.ref}
	}
}

func (t *Trace) note(at *origin, item *Item) { t.mark(at, item) }

func (t *Trace) decision(at *origin, v Verdict) { t.mark(at, nil).rest = &rest{verdict: v} }

func (t *Trace) failure(at *origin, item *Item, err error) { t.mark(at, item).rest = &rest{err: err} }

// RuleError is a rule that failed at run time. The values it would have set are as before.
type RuleError struct {
	Path string // set/stage/rule
	At   Position
	Item string
	Err  error
}

// Error names the rule, where it stands and what failed.
func (e *RuleError) Error() string {
	on := ""
	if e.Item != "" {
		on = " for " + e.Item
	}
	return fmt.Sprintf("rule %s (%s) failed%s: %v", e.Path, e.At, on, e.Err)
}

// Unwrap returns the cause.
func (e *RuleError) Unwrap() error { return e.Err }
