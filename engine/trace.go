package engine

import (
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

// Trace records what fired during a run. A nil *Trace records nothing and costs nothing.
type Trace struct {
	Steps []Step
	// Coverage also notes which outcomes of rules were reached; nil = it does not.
	Coverage *Coverage
}

// Last returns the last step that changed a field of an item; ok is false when none did.
func (t *Trace) Last(item, field string) (step Step, ok bool) {
	if t == nil {
		return Step{}, false
	}
	for i := len(t.Steps) - 1; i >= 0; i-- {
		if s := t.Steps[i]; s.Item == item && s.Field == field && s.Error == "" {
			return s, true
		}
	}
	return Step{}, false
}

func (t *Trace) step(set *setPlan, stage, rule string, pos Position, item *Item) *Step {
	s := Step{RuleSet: set.ruleSet.Name.Value, Version: set.ruleSet.Version.Value, Stage: stage, Rule: rule, At: pos.String()}
	if item != nil {
		s.Item = item.Label
	}
	t.Steps = append(t.Steps, s)
	return &t.Steps[len(t.Steps)-1]
}

func (t *Trace) change(set *setPlan, stage string, r *rulePlan, item *Item, w *writePlan, from, to ref.Val) {
	s := t.step(set, stage, r.name, r.pos, item)
	s.Field, s.From, s.To, s.Reason = w.field, set.types.format(w.typ, from), set.types.format(w.typ, to), r.note
}

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
