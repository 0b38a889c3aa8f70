package engine

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// ObjectTypes types the objects of a validation point and finds the values inside them.
type ObjectTypes interface {
	// Env returns the environment for rules at a path such as spec.items[*], with self typed as what is there.
	Env(at string) (*cel.Env, error)
	// Values lists what the path selects in the object, with the matching old value where there is one.
	Values(at string, object, old map[string]any) ([]ObjectValue, error)
}

// ObjectValue is one value that a validation looks at.
type ObjectValue struct {
	Path string // concrete, e.g. spec.items[2]
	Self ref.Val
	Old  ref.Val // nil when there was none
}

// Violation is a validation that an object does not fulfil.
type Violation struct {
	Rule    string // set/validation
	Path    string // concrete path of the offending field
	Reason  string // FieldValueInvalid and its siblings
	Message string
	Warning bool // the object is accepted all the same
}

func (c *compiler) validations(point *Point, set *RuleSet, compiled *setPlan) {
	for i := range set.Validations {
		v := &set.Validations[i]
		subject := "RuleSet " + set.ID() + ", validation " + v.Name.Value
		env, err := point.Objects.Env(v.At.Value)
		if err != nil {
			from := v.At
			if from.IsZero() {
				from = v.Name
			}
			c.ps.at(from, subject, err.Error())
			continue
		}
		schema := false
		for _, e := range v.Enforce {
			schema = schema || e.Value == EnforceSchema
		}
		if !schema {
			// Only the host's own evaluation knows gates; an API server would refuse the name.
			if env, err = env.Extend(cel.Variable("gates", cel.MapType(cel.StringType, cel.BoolType))); err != nil {
				c.ps.at(v.Name, subject, err.Error())
				continue
			}
		}
		out := &validationPlan{validation: v}
		out.expression = c.typed(v.Expression, env, cel.BoolType, subject+", expression")
		if !v.When.IsZero() {
			out.when = c.typed(v.When, env, cel.BoolType, subject+", when")
		}
		if !v.MessageExpression.IsZero() {
			out.message = c.typed(v.MessageExpression, env, cel.StringType, subject+", messageExpression")
		}
		compiled.validations = append(compiled.validations, out)
	}
}

func (c *compiler) typed(s Scalar, env *cel.Env, want *cel.Type, subject string) cel.Program {
	ast, prg := c.compile(s, env, nil, subject)
	if prg != nil && !ast.OutputType().IsExactType(want) {
		c.ps.at(s, subject, fmt.Sprintf("the expression gives %s, it must give %s", ast.OutputType(), want))
	}
	return prg
}

// Validate runs every validation at a point and returns all violations, in rule order.
// A rule that fails at run time is a violation too: an object that cannot be judged is not accepted. The trace, nil as
// a rule, collects coverage only: violations tell themselves what happened.
func (p *Plan) Validate(point string, object, old map[string]any, trace *Trace) []Violation {
	at := p.points[point]
	if at == nil {
		return nil
	}
	var out []Violation
	for _, set := range at.sets {
		gates := map[string]bool{}
		for _, f := range set.gates.schema.fields {
			gates[f.Name] = set.gates.Bool(f.Name)
		}
		for _, v := range set.validations {
			out = append(out, v.run(set, at.point.Objects, gates, object, old, trace)...)
		}
	}
	return out
}

func (v *validationPlan) run(set *setPlan, objects ObjectTypes, gates map[string]bool, object, old map[string]any, trace *Trace) []Violation {
	rule := set.ruleSet.Name.Value + "/" + v.validation.Name.Value
	reason := v.validation.Reason.Value
	if reason == "" {
		reason = "FieldValueInvalid"
	}
	values, err := objects.Values(v.validation.At.Value, object, old)
	if err != nil {
		return []Violation{{Rule: rule, Path: v.validation.At.Value, Reason: reason, Message: err.Error()}}
	}
	var out []Violation
	for _, value := range values {
		vars := map[string]any{"self": value.Self, "gates": gates}
		if value.Old != nil {
			vars["oldSelf"] = value.Old
		}
		message, came := v.check(vars)
		if trace != nil {
			trace.Coverage.note(set, "", v.validation.Name.Value, v.validation.Overlay, came)
		}
		if came == violated || came == errored {
			out = append(out, Violation{Rule: rule, Path: value.Path + v.validation.FieldPath.Value, Reason: reason, Message: message, Warning: v.validation.Severity.Value == SeverityWarn})
		}
	}
	return out
}

// check judges a value; the message tells the user what is wrong where the rule is violated.
func (v *validationPlan) check(vars map[string]any) (message string, came outcome) {
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
	return v.validation.Message.Value, violated
}
