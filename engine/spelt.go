package engine

import (
	"slices"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// speltValidation writes the axis value into the expressions, for consumers without axes.
func speltValidation(v *document.Validation, value *lang.AxisValue) *document.Validation {
	if value == nil {
		return v
	}
	out := *v
	for _, e := range []*source.Scalar{&out.When, &out.Expression, &out.MessageExpression} {
		e.Value = spelt(e.Value, value)
	}
	return &out
}

// spelt replaces the axis name in an expression: resource becomes 'cpu', [?resource] .?cpu.
func spelt(expression string, value *lang.AxisValue) string {
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
		if e.Kind() == celast.IdentKind && e.AsIdent() == value.Axis.Name {
			if at, found := ast.NativeRep().SourceInfo().GetOffsetRange(e.ID()); found {
				places = append(places, int(at.Start))
			}
		}
	}))
	slices.Sort(places)
	runes := []rune(expression)
	for _, at := range slices.Backward(slices.Compact(places)) {
		end := at + len(value.Axis.Name)
		if at >= 2 && end < len(runes) && string(runes[at-2:at]) == "[?" && runes[end] == ']' {
			runes = slices.Replace(runes, at-2, end+1, []rune(".?"+value.Value)...) // works on objects, too
			continue
		}
		runes = slices.Replace(runes, at, end, []rune("'"+value.Value+"'")...)
	}
	return string(runes)
}
