package engine

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/registry"
)

// Validate runs every validation at a point, those of the schema too, which may not be in every schema, and returns all violations, in rule order.
// A rule that fails at run time is a violation too: an object that cannot be judged is not accepted. What is violated by
// a value that did not change is only a warning, as it is to an API server: an object that was accepted once can still be
// edited. The trace, nil as a rule, collects coverage only: violations tell themselves what happened.
func (p *Plan) Validate(point string, judged Judged, trace *Trace) []Violation {
	at := p.at(point)
	if at == nil {
		return nil
	}
	var out []Violation
	run := &validationRun{view: at.Point.Objects.Open(judged.Object, judged.Old), facts: judged.Facts.Variables(at.Point), trace: trace}
	for _, set := range at.Sets {
		run.set = set
		for _, v := range set.Validations {
			if !judged.Schema || v.Validation.EnforcedAt(document.EnforceSchema) {
				out = append(out, run.validate(v)...)
			}
		}
	}
	return out
}

// validationRun is one object before the validations of a point.
type validationRun struct {
	view  registry.ObjectView
	facts map[string]any
	set   *SetPlan
	trace *Trace
}

func (r *validationRun) validate(v *ValidationPlan) []Violation {
	rule := r.set.RuleSet.Name.Value + "/" + v.Validation.Name.Value
	reason := v.Validation.Reason.Value
	if reason == "" {
		reason = "FieldValueInvalid"
	}
	var out []Violation
	for _, place := range v.Places {
		values, err := r.view.Values(place.At)
		if err != nil {
			out = append(out, Violation{Rule: rule, Path: place.At, Reason: reason, Message: err.Error()})
			continue
		}
		for _, value := range values {
			message, came := place.check(&scope{value: value.Vars, run: r}, v.Validation.Message.Value)
			if r.trace != nil {
				r.trace.Coverage.note(r.set, "", v.Validation.Name.Value, v.Axis, v.Validation.Overlay, came)
			}
			if came == violated || came == errored {
				warning := v.Validation.Severity.Value == document.SeverityWarn || (value.Unchanged && !v.transition())
				out = append(out, Violation{Rule: rule, Path: pathBelow(value.Path, place.FieldPath), Self: value.Path, Reason: reason, Message: message, Warning: warning, Failed: came == errored})
			}
		}
	}
	return out
}

func pathBelow(path, below string) string {
	if path == "" || below == "" || below[0] == '[' {
		return path + below
	}
	return path + "." + below
}

// scope resolves the names of an expression. It implements cel.Activation.
type scope struct {
	value map[string]any
	run   *validationRun
}

// ResolveName implements cel.Activation.
func (s *scope) ResolveName(name string) (any, bool) {
	if v, ok := s.value[name]; ok {
		return v, true
	}
	switch name {
	case "gates":
		return s.run.set.Gates, true
	case "params":
		return s.run.set.Params, true
	}
	v, ok := s.run.facts[name]
	return v, ok
}

// Parent implements cel.Activation.
func (s *scope) Parent() cel.Activation { return nil }

// check judges a value; the message tells the user what is wrong where the rule is violated.
func (v *PlacedValidation) check(vars cel.Activation, otherwise string) (message string, came outcome) {
	if v.When != nil {
		applies, err := v.When(vars)
		if err != nil {
			return fmt.Sprintf("the rule's when failed: %v", err), errored
		}
		if applies != types.True {
			return "", notHeld
		}
	}
	result, err := v.Expression(vars)
	if err != nil {
		return fmt.Sprintf("the rule failed: %v", err), errored
	}
	if result == types.True {
		return "", fulfilled
	}
	if v.Message != nil {
		if text, err := v.Message(vars); err == nil {
			if s, isString := text.(types.String); isString && s != "" {
				return string(s), violated
			}
		}
	}
	return otherwise, violated
}

// Violation is a validation that an object does not fulfil.
type Violation struct {
	Rule    string // set/validation
	Path    string // concrete path of the offending field
	Self    string // concrete path of what the validation looked at: Path, or what Path is below
	Reason  string // FieldValueInvalid and its siblings
	Message string
	Warning bool // the object is accepted all the same
	Failed  bool // the rule could not judge the object
}

// Judged is what validations look at.
type Judged struct {
	Object map[string]any
	Old    map[string]any  // what it replaces; nil = it is new
	Facts  *registry.Facts // further facts of the point; nil = none
	// Schema runs only the validations that are enforced in the schema.
	Schema bool
}

// PlacedValidation is a validation compiled for one of its places.
type PlacedValidation struct {
	At         string
	FieldPath  string // as errors show it
	When       ValidationCode
	Expression ValidationCode
	Message    ValidationCode
}

// ValidationCode runs an expression of a validation; nil for none. Its program is planned when it first runs: with its table of all
// functions it takes 50 KB, and a process that reviews pods hardly ever runs most validations.
type ValidationCode func(cel.Activation) (ref.Val, error)

// transition reports whether a validation compares with what was there before. It is then evaluated for values that did
// not change, too: it says itself what may stay.
func (v *ValidationPlan) transition() bool {
	return slices.Contains(v.Reads, "oldSelf") || slices.Contains(v.Reads, "oldObject")
}

// ValidationInfo is a validation as a plan runs it, for those who enforce it elsewhere.
type ValidationInfo struct {
	Rule        string               // set/validation, as violations name it: the same for all values of an axis
	Description string               // of the rule set
	Validation  *document.Validation // for that value, in CEL that knows no axes
	Reads       []string             // the variables that its condition and expression read, sorted
	Calls       []string             // the functions and operators that they call, sorted
}

// Validations lists the validations at a point in the order in which they run.
func (p *Plan) Validations(point string) []ValidationInfo {
	var out []ValidationInfo
	at := p.at(point)
	if at == nil {
		return nil
	}
	for _, set := range at.Sets {
		for _, v := range set.Validations {
			out = append(out, ValidationInfo{Rule: set.RuleSet.Name.Value + "/" + v.Validation.Name.Value, Description: set.RuleSet.Description, Validation: speltValidation(v.Validation, v.Axis),
				Reads: slices.Sorted(slices.Values(v.Reads)), Calls: slices.Sorted(slices.Values(v.Calls))})
		}
	}
	return out
}
