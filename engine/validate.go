package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Validate runs every validation at a point and returns all violations in rule order. That includes
// schema rules, which the installed schema may lack. A rule that fails at run time is a violation:
// an object that cannot be judged is rejected. As in an API server, a violation by an unchanged
// value is only a warning, so that accepted objects stay editable. trace collects only coverage.
func (p *Plan) Validate(point string, judged Judged, trace *Trace) []Violation {
	at := p.at(point)
	if at == nil {
		return nil
	}
	var out []Violation
	facts := judged.Facts.Filled(at.Point)
	run := &validationRun{at: at, view: at.Point.Objects.Open(judged.Object, judged.Old), facts: facts, left: lang.MaxReviewSteps, trace: trace}
	for _, set := range at.Sets {
		run.set = set
		for _, v := range set.Validations {
			if run.left >= 0 && (!judged.Schema || v.Validation.EnforcedAt(document.EnforceSchema)) {
				out = append(out, run.validate(v)...)
			}
		}
	}
	return out
}

// validationRun validates one object at a point.
type validationRun struct {
	at    *PointPlan
	view  registry.ObjectView
	facts []lang.Cell
	set   *SetPlan
	scope scope // of the current value
	left  int64 // steps
	trace *Trace
}

func (r *validationRun) validate(v *ValidationPlan) []Violation {
	var out []Violation
	for _, place := range v.Places {
		for _, value := range r.view.Values(place.At) {
			r.scope = scope{run: r, value: value}
			message, came := place.check(&r.scope, v.Validation.Message.Value)
			over := r.left < 0
			if over {
				message, came = tooManySteps, errored
			}
			if r.trace != nil {
				r.trace.Coverage.note(r.set, "", v.Validation.Name.Value, v.Axis, v.Validation.Overlay, came)
			}
			if came == violated || came == errored {
				out = append(out, Violation{
					Rule: r.set.RuleSet.Name.Value + "/" + v.Validation.Name.Value, Path: pathBelow(value.Path(), place.FieldPath), Self: value.Path(),
					Reason: cmp.Or(v.Validation.Reason.Value, "FieldValueInvalid"), Message: message, Failed: came == errored, Gated: came == violated && place.Expression.Gated,
					Warning: !over && v.Validation.Severity.Value == document.SeverityWarn || (over || !v.transition()) && value.Unchanged(),
				})
			}
			if over {
				return out
			}
		}
	}
	return out
}

// tooManySteps is the message of the rule with which the rules of an object take too long. Those
// behind it do not run.
var tooManySteps = fmt.Sprintf("the rule failed: the rules take more than %d steps for this object", lang.MaxReviewSteps)

func pathBelow(path, below string) string {
	if path == "" || below == "" || below[0] == '[' {
		return path + below
	}
	return path + "." + below
}

// scope is what the expressions about one value read.
type scope struct {
	run   *validationRun
	value registry.ObjectValue
	vars  map[string]any // of value; nil until one is read
}

// ResolveName implements cel.Activation.
func (s *scope) ResolveName(name string) (any, bool) {
	if s.vars == nil {
		s.vars = s.value.Vars()
	}
	if v, ok := s.vars[name]; ok {
		return v, true
	}
	switch name {
	case "gates":
		return s.run.set.Gates, true
	case "params":
		return s.run.set.Params, true
	}
	i, ok := s.run.at.Point.VarIndex()[name]
	if !ok {
		return nil, false
	}
	v := s.run.facts[i].Val()
	return v, v != nil
}

// Parent implements cel.Activation.
func (s *scope) Parent() cel.Activation { return nil }

// check returns the outcome for a value, and the message for the user if it is rejected.
func (v *PlacedValidation) check(s *scope, otherwise string) (message string, came outcome) {
	if v.When != nil {
		applies, err := v.When.holds(s)
		if err != nil {
			return fmt.Sprintf("the rule's when failed: %v", err), errored
		}
		if !applies {
			return "", notHeld
		}
	}
	holds, err := v.Expression.holds(s)
	if err != nil {
		return fmt.Sprintf("the rule failed: %v", err), errored
	}
	if holds {
		return "", fulfilled
	}
	if v.Message != nil {
		text, steps, err := v.Message(s)
		s.run.left -= steps
		if err == nil {
			if s, isString := text.(types.String); isString && s != "" {
				return string(s), violated
			}
		}
	}
	return otherwise, violated
}

// holds evaluates a condition.
func (c *Condition) holds(s *scope) (bool, error) {
	result, steps, err := c.CEL(s)
	s.run.left -= lang.CheckSteps + steps
	return result == types.True, err
}

// Violation is a validation that an object fails.
type Violation struct {
	Rule    string // set/validation
	Path    string // concrete path of the offending field
	Self    string // concrete path of self: Path or a parent of it
	Reason  string // FieldValueInvalid and its siblings
	Message string
	Warning bool // the object is accepted anyway
	Failed  bool // the rule failed at run time
	Gated   bool // the expression reads a feature gate: with other gates it might hold
}

// Judged is the input of validations.
type Judged struct {
	Object map[string]any
	Old    map[string]any  // nil = Object is new
	Facts  *registry.Facts // further facts of the point; nil = none
	// Schema runs only the validations that are enforced in the schema.
	Schema bool
}

// PlacedValidation is a validation compiled for one of its places.
type PlacedValidation struct {
	At         registry.ObjectPlace
	FieldPath  string     // as errors show it
	When       *Condition // nil = always
	Expression *Condition
	Message    ValidationCode // nil = the written message
}

// Condition is a boolean expression of a validation.
type Condition struct {
	CEL   ValidationCode
	Gated bool // it reads a feature gate
}

// ValidationCode runs an expression of a validation in CEL, and counts its steps.
type ValidationCode func(cel.Activation) (v ref.Val, steps int64, err error)

// transition reports whether a validation reads the old object. Its violations stay errors for
// unchanged values: the rule itself says what may stay.
func (v *ValidationPlan) transition() bool {
	return slices.Contains(v.Reads, "oldSelf") || slices.Contains(v.Reads, "oldObject")
}

// ValidationInfo describes a validation for those who enforce it elsewhere, e.g. API servers.
type ValidationInfo struct {
	Rule        string               // set/validation, the same for all values of an axis
	Description string               // of the rule set
	Validation  *document.Validation // for one axis value, in plain CEL
	Reads       []string             // variables that the condition and expression read, sorted
	Calls       []string             // functions and operators that they call, sorted
}

// Validations lists the validations at a point in run order.
func (p *Plan) Validations(point string) []ValidationInfo {
	var out []ValidationInfo
	at := p.at(point)
	if at == nil {
		return nil
	}
	for _, set := range at.Sets {
		for _, v := range set.Validations {
			out = append(out, ValidationInfo{Rule: set.RuleSet.Name.Value + "/" + v.Validation.Name.Value, Description: set.RuleSet.Description, Validation: v.Validation,
				Reads: slices.Sorted(slices.Values(v.Reads)), Calls: slices.Sorted(slices.Values(v.Calls))})
		}
	}
	return out
}
