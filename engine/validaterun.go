package engine

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
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
	run := &validationRun{view: at.point.Objects.Open(judged.Object, judged.Old), facts: judged.Facts.variables(at.point), trace: trace}
	for _, set := range at.sets {
		run.set = set
		for _, v := range set.validations {
			if !judged.Schema || v.validation.EnforcedAt(EnforceSchema) {
				out = append(out, run.validate(v)...)
			}
		}
	}
	return out
}

// variables are the facts by name. What is not given is empty.
func (f *Facts) variables(point *Point) map[string]any {
	out := map[string]any{}
	for i, v := range point.Vars {
		var value any
		if f != nil {
			if given := f.get(i); given != nil {
				value = given
			}
		}
		_, isList := v.Type.elem()
		switch {
		case value != nil:
		case isList:
			value = types.NewRefValList(types.DefaultTypeAdapter, nil)
		case v.Type.isRecord():
			value = v.Type.schema.empty
		default:
			continue // reading it fails, and says so
		}
		out[v.Name] = value
	}
	return out
}

// validationRun is one object before the validations of a point.
type validationRun struct {
	view  ObjectView
	facts map[string]any
	set   *setPlan
	trace *Trace
}

func (r *validationRun) validate(v *validationPlan) []Violation {
	rule := r.set.ruleSet.Name.Value + "/" + v.validation.Name.Value
	reason := v.validation.Reason.Value
	if reason == "" {
		reason = "FieldValueInvalid"
	}
	var out []Violation
	for _, place := range v.places {
		values, err := r.view.Values(place.at)
		if err != nil {
			out = append(out, Violation{Rule: rule, Path: place.at, Reason: reason, Message: err.Error()})
			continue
		}
		for _, value := range values {
			message, came := place.check(&scope{value: value.Vars, run: r}, v.validation.Message.Value)
			if r.trace != nil {
				r.trace.Coverage.note(r.set, "", v.validation.Name.Value, v.axis, v.validation.Overlay, came)
			}
			if came == violated || came == errored {
				warning := v.validation.Severity.Value == SeverityWarn || (value.Unchanged && !v.transition())
				out = append(out, Violation{Rule: rule, Path: pathBelow(value.Path, place.fieldPath), Self: value.Path, Reason: reason, Message: message, Warning: warning, Failed: came == errored})
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
		return s.run.set.gates, true
	case "params":
		return s.run.set.params, true
	}
	v, ok := s.run.facts[name]
	return v, ok
}

// Parent implements cel.Activation.
func (s *scope) Parent() cel.Activation { return nil }

// check judges a value; the message tells the user what is wrong where the rule is violated.
func (v *placedValidation) check(vars cel.Activation, otherwise string) (message string, came outcome) {
	if v.when != nil {
		applies, _, err := v.when.Eval(vars)
		if err != nil {
			return fmt.Sprintf("the rule's when failed: %v", err), errored
		}
		if applies != types.True {
			return "", notHeld
		}
	}
	result, _, err := v.expression.Eval(vars)
	if err != nil {
		return fmt.Sprintf("the rule failed: %v", err), errored
	}
	if result == types.True {
		return "", fulfilled
	}
	if v.message != nil {
		if text, _, err := v.message.Eval(vars); err == nil {
			if s, isString := text.(types.String); isString && s != "" {
				return string(s), violated
			}
		}
	}
	return otherwise, violated
}
