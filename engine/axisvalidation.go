package engine

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
)

// validationsAlong are the validations of a rule set, one with an axis once for each of its values.
func (c *compiler) validationsAlong(set *RuleSet) (out []validationPlan) {
	for i := range set.Validations {
		v := &set.Validations[i]
		subject := "RuleSet " + set.ID() + ", validation " + v.Name.Value
		var axis *Axis
		if len(v.Axes) > 0 {
			if axis = c.axisNamed(v.Axes[0], subject); axis == nil {
				continue
			}
		}
		if len(v.Axes) > 1 {
			c.ps.at(v.Axes[1], subject, "a validation has one axis at most")
		}
		for _, value := range c.valuesBut(axis, v.Without, subject) {
			out = append(out, validationPlan{validation: v.along(value), axis: value})
		}
	}
	return out
}

// along is the validation with its texts and paths for one value of its axis: {resource} in a message is cpu, [resource] in
// fieldPath ['cpu']. Expressions stay; they are rewritten when they are compiled.
func (v *Validation) along(value *axisValue) *Validation {
	if value == nil {
		return v
	}
	out := *v
	out.Message.Value = value.text(v.Message.Value)
	out.FieldPath.Value = strings.ReplaceAll(v.FieldPath.Value, "["+value.axis.Name+"]", "['"+value.value+"']")
	out.At = slices.Clone(v.At)
	for i := range out.At {
		out.At[i].Value = value.path(out.At[i].Value)
	}
	return &out
}

// spelt is the validation with the value of its axis in its expressions, too, as whoever knows no axes takes it.
func (v *Validation) spelt(value *axisValue) *Validation {
	if value == nil {
		return v
	}
	out := *v
	for _, e := range []*Scalar{&out.When, &out.Expression, &out.MessageExpression} {
		e.Value = spelt(e.Value, value)
	}
	return &out
}

// spelt writes 'cpu' wherever an expression, which compiled before, names its axis, and .?cpu for [?resource].
func spelt(expression string, value *axisValue) string {
	env, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil || expression == "" {
		return expression
	}
	ast, issues := env.Parse(expression)
	if issues.Err() != nil {
		return expression
	}
	var places []int
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.IdentKind && e.AsIdent() == value.axis.Name {
			if at, found := ast.NativeRep().SourceInfo().GetOffsetRange(e.ID()); found {
				places = append(places, int(at.Start))
			}
		}
	}))
	slices.Sort(places)
	runes := []rune(expression)
	for _, at := range slices.Backward(slices.Compact(places)) {
		end := at + len(value.axis.Name)
		if at >= 2 && end < len(runes) && string(runes[at-2:at]) == "[?" && runes[end] == ']' {
			runes = slices.Replace(runes, at-2, end+1, []rune(".?"+value.value)...) // for objects, too
			continue
		}
		runes = slices.Replace(runes, at, end, []rune("'"+value.value+"'")...)
	}
	return string(runes)
}
