package compile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
)

// noOverload is what CEL's checker says of a call whose arguments have the wrong types.
var noOverload = regexp.MustCompile(`^found no matching overload for '([^']+)' applied to '(.*)'$`)

// operatorNames are those that CEL has no sign for.
var operatorNames = map[string]string{
	operators.Conditional: "?:", operators.Index: "[]", operators.OptIndex: "[?]", operators.In: "in", operators.Negate: "-", operators.LogicalNot: "!",
}

// overloadFault says of a call with arguments of the wrong types how to write it; other messages stay as they are.
func (c *compiler) overloadFault(message, expression string, at common.Location, env *cel.Env) string {
	m := noOverload.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	name, types := m[1], m[2]
	if f := c.reg.FunctionsByName()[name]; f != nil {
		return message + "; there is " + strings.Join(f.Signatures(), ", ")
	}
	sign, ok := operatorNames[name]
	if !ok {
		if sign, ok = operators.FindReverse(name); !ok || sign == "" {
			return message
		}
	}
	message = fmt.Sprintf("operator %s does not take %s", sign, types)
	switch {
	case name == operators.OptSelect, name == operators.OptIndex && !strings.Contains(types, "list("):
		return message + "; fields of a record are named, as in x.?field"
	case strings.Contains(types, lang.OptionalTypeName+"("):
		return message + "; an optional may hold no value: add .orValue(…)"
	case name == operators.Conditional:
		return message + ": a condition, and two values of the same type"
	}
	fractional := types == "(int, double)" || types == "(double, int)"
	left, right := operands(expression, name, at, env)
	switch scale := c.scaling(); {
	case fractional && scale != "" && name == operators.Multiply && left != "":
		if types == "(double, int)" {
			left, right = right, left
		}
		return fmt.Sprintf("%s; write %s(%s, %s)", message, scale, left, right)
	case types == "(int, double)" && scale != "" && name == operators.Divide && left != "":
		return fmt.Sprintf("%s; write %s(%s, 1.0 / %s)", message, scale, left, right)
	case fractional, types == "(int, string)", types == "(string, int)":
		return message + "; amounts are whole numbers, written as literals" + c.someLiteral()
	}
	return message
}

// operands are the texts of the arguments of the operator at a position; empty if they are not found.
func operands(expression, name string, at common.Location, env *cel.Env) (left, right string) {
	ast, issues := env.Parse(expression)
	if issues.Err() != nil {
		return "", ""
	}
	native := ast.NativeRep()
	text := func(e celast.Expr) string {
		out, err := cel.ExprToString(e, native.SourceInfo())
		if err != nil {
			return ""
		}
		return out
	}
	celast.PreOrderVisit(native.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != name || len(e.AsCall().Args()) != 2 {
			return
		}
		if loc := native.SourceInfo().GetStartLocation(e.ID()); loc.Line() == at.Line() && loc.Column() == at.Column() {
			left, right = text(e.AsCall().Args()[0]), text(e.AsCall().Args()[1])
		}
	}))
	return left, right
}

// scaling is the host's function that multiplies an amount by a fraction, known by its types; empty if there is none.
func (c *compiler) scaling() string {
	functions := c.reg.FunctionsByName()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if f := functions[name]; f.Units == closure.FirstUnit && slices.Contains(f.Signatures(), name+"(int, double) -> int") {
			return name
		}
	}
	return ""
}

// someLiteral is an example of an amount.
func (c *compiler) someLiteral() string {
	units := c.reg.Units()
	for _, name := range slices.Sorted(maps.Keys(units)) {
		if u := units[name]; u.Func != "" {
			return fmt.Sprintf(" such as %s('%s')", u.Func, u.Format(250))
		}
	}
	return ""
}

// amountHint is how to write what an expression gives as the amount that a field holds; empty if that is not known.
func (c *compiler) amountHint(ast *cel.Ast, field lang.Type) string {
	unit := c.reg.Units()[field.Unit()]
	if e := ast.NativeRep().Expr(); e.Kind() == celast.LiteralKind && unit.Func != "" {
		if n, err := unit.Parse(fmt.Sprint(e.AsLiteral().Value())); err == nil {
			return fmt.Sprintf("; write %s('%s')", unit.Func, unit.Format(n))
		}
	}
	switch scale := c.scaling(); {
	case lang.Inside(ast.OutputType()) != ast.OutputType():
		return "; an optional may hold no value: add .orValue(…)"
	case ast.OutputType().IsExactType(cel.DoubleType) && unit.Func != "" && scale != "":
		return fmt.Sprintf("; %s(amount, 1.5) is an amount times a fraction", scale)
	}
	return ""
}
