package compile

import (
	"fmt"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
)

// operatorUnits says how CEL's operators treat units.
var operatorUnits = map[string]closure.UnitRule{
	operators.Add: closure.SameUnit, operators.Subtract: closure.SameUnit, operators.Negate: closure.SameUnit, operators.Modulo: closure.SameUnit,
	operators.Less: closure.AgreeingArguments, operators.LessEquals: closure.AgreeingArguments, operators.Greater: closure.AgreeingArguments,
	operators.GreaterEquals: closure.AgreeingArguments, operators.Equals: closure.AgreeingArguments, operators.NotEquals: closure.AgreeingArguments,
}

// unitChecker reports amounts of different units that meet, e.g. millicores compared with bytes. A
// number without a unit fits everywhere.
type unitChecker struct {
	c        *compiler
	sc       *scopeEnv
	x        *checkedExpression
	ast      *celast.AST
	subject  string
	iterated map[string]string // iteration variables of comprehensions over plain lists
}

func (c *compiler) unitChecker(x *checkedExpression, sc *scopeEnv, subject string) *unitChecker {
	return &unitChecker{c: c, sc: sc, x: x, ast: x.NativeRep(), subject: subject, iterated: map[string]string{}}
}

// unitOf checks an expression and returns the unit of its result, empty for none.
func (c *compiler) unitOf(x *checkedExpression, sc *scopeEnv, subject string) string {
	u := c.unitChecker(x, sc, subject)
	return u.expr(u.ast.Expr())
}

// unitFits checks an expression whose result a field of a type is set to.
func (c *compiler) unitFits(x *checkedExpression, sc *scopeEnv, field lang.Type, subject string) {
	u := c.unitChecker(x, sc, subject)
	root := u.ast.Expr()
	switch unit := u.expr(root); {
	case unit == "":
		u.bareNumbers(u.results(root), field.Unit())
	case field.Unit() != "" && unit != field.Unit():
		c.ps.At(x.at, subject, fmt.Sprintf("the expression gives %s, the field holds %s", lang.IntOf(unit), field))
	}
}

// results lists the parts of an expression that are counted in the same unit as its result.
func (u *unitChecker) results(e celast.Expr) (out []celast.Expr) {
	if e.Kind() != celast.CallKind {
		return []celast.Expr{e}
	}
	args := e.AsCall().Args()
	switch name := e.AsCall().FunctionName(); {
	case name == operators.Conditional:
		args = args[1:]
	case u.c.unitRule(name) != closure.SameUnit:
		return []celast.Expr{e}
	}
	for _, a := range args {
		out = append(out, u.results(a)...)
	}
	return out
}

func (u *unitChecker) expr(e celast.Expr) string {
	switch e.Kind() {
	case celast.IdentKind:
		if unit, ok := u.iterated[e.AsIdent()]; ok {
			return unit
		}
		return u.sc.types[e.AsIdent()].Unit()
	case celast.SelectKind:
		return u.field(e)
	case celast.ListKind:
		return u.agree(e.AsList().Elements(), e)
	case celast.CallKind:
		return u.call(e)
	case celast.ComprehensionKind:
		return u.comprehension(e.AsComprehension())
	}
	return ""
}

func (u *unitChecker) field(e celast.Expr) string {
	s := e.AsSelect()
	if unit := u.member(s.Operand(), s.FieldName()); !s.IsTestOnly() {
		return unit
	}
	return ""
}

func (u *unitChecker) member(operand celast.Expr, field string) string {
	u.expr(operand)
	schema := u.sc.schemas[lang.Inside(u.ast.GetType(operand.ID())).TypeName()]
	if schema == nil {
		return ""
	}
	if i, ok := schema.Index()[field]; ok {
		return schema.Fields()[i].Type.Unit()
	}
	return ""
}

// optional is the unit of an optional value or its fallback; ok is false for other calls.
func (u *unitChecker) optional(e celast.Expr) (unit string, ok bool) {
	if operand, field, ok := closure.OptionalField(e); ok {
		return u.member(operand, field), true
	}
	call := e.AsCall()
	switch overloads := u.ast.GetOverloadIDs(e.ID()); {
	case len(overloads) != 1:
		return "", false
	case overloads[0] == closure.OptionalValue:
		return u.expr(call.Target()), true
	case overloads[0] == closure.OptionalOr, overloads[0] == closure.OptionalOrValue:
		return u.agree([]celast.Expr{call.Target(), call.Args()[0]}, e), true
	}
	return "", false
}

func (u *unitChecker) call(e celast.Expr) string {
	if unit, ok := u.optional(e); ok {
		return unit
	}
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		u.expr(call.Target())
	}
	switch name := call.FunctionName(); name {
	case operators.Conditional:
		u.expr(args[0])
		return u.agree(args[1:], e)
	case operators.Multiply:
		return u.product(args, e)
	case operators.Divide:
		return u.quotient(args)
	case "mulDivFloor", "mulDivCeil":
		return u.mulDiv(args, e)
	default:
		if unit, ok := u.c.unitFunctions[name]; ok {
			return unit
		}
		return u.byRule(u.c.unitRule(name), args, e)
	}
}

func (u *unitChecker) byRule(rule closure.UnitRule, args []celast.Expr, e celast.Expr) string {
	switch rule {
	case closure.SameUnit:
		return u.agree(args, e)
	case closure.AgreeingArguments:
		u.agree(args, e)
		return ""
	}
	first := ""
	for i, a := range args {
		if unit := u.expr(a); i == 0 {
			first = unit
		}
	}
	if rule == closure.FirstUnit {
		return first
	}
	return ""
}

// agree reports arguments of different units and returns the unit they share.
func (u *unitChecker) agree(args []celast.Expr, e celast.Expr) string {
	shared := ""
	defer func() { u.bareNumbers(args, shared) }()
	for _, a := range args {
		unit := u.expr(a)
		switch {
		case unit == "" || unit == shared:
		case shared == "":
			shared = unit
		default:
			u.problem(e, fmt.Sprintf("%s meets %s here: they are counted in different units (%s and %s)", shared, unit, u.doc(shared), u.doc(unit)))
			return ""
		}
	}
	return shared
}

// bareNumbers reports numbers without a unit that meet an amount. Zero fits every unit.
func (u *unitChecker) bareNumbers(args []celast.Expr, unit string) {
	if unit == "" || u.c.reg.Units()[unit].Func == "" {
		return
	}
	for _, a := range args {
		if n, ok := literalInt(a); ok && n != 0 {
			measure := u.c.reg.Units()[unit]
			u.x.problem(u.c.findings, a, u.subject, fmt.Sprintf("%d counts %s here; write %s('%s')", n, measure.Doc, measure.Func, measure.Format(n)))
		}
	}
}

func literalInt(e celast.Expr) (int64, bool) {
	if e.Kind() != celast.LiteralKind {
		return 0, false
	}
	n, ok := e.AsLiteral().(types.Int)
	return int64(n), ok
}

func (u *unitChecker) product(args []celast.Expr, e celast.Expr) string {
	a, b := u.expr(args[0]), u.expr(args[1])
	if a != "" && b != "" {
		u.problem(e, fmt.Sprintf("%s times %s is neither; use mulDivFloor or mulDivCeil to relate amounts", a, b))
		return ""
	}
	return a + b
}

// quotient: dividing by a plain number keeps the unit, dividing like by like gives a plain number.
func (u *unitChecker) quotient(args []celast.Expr) string {
	a, b := u.expr(args[0]), u.expr(args[1])
	if b == "" {
		return a
	}
	return ""
}

// mulDiv: in a × b ÷ c one of a and b cancels against c, and the other's unit remains.
func (u *unitChecker) mulDiv(args []celast.Expr, e celast.Expr) string {
	a, b, c := u.expr(args[0]), u.expr(args[1]), u.expr(args[2])
	switch {
	case c == "" && (a == "" || b == ""):
		return a + b
	case b == c:
		return a
	case a == c:
		return b
	case a == "" || b == "":
		return "" // a ratio that rules cannot name
	}
	u.problem(e, fmt.Sprintf("%s × %s ÷ %s leaves no unit: divide by an amount of the same unit as one of the factors", a, b, c))
	return ""
}

func (u *unitChecker) comprehension(c celast.ComprehensionExpr) string {
	ranged := u.expr(c.IterRange())
	u.iterated[c.IterVar()] = ranged
	defer delete(u.iterated, c.IterVar())
	u.expr(c.LoopCondition())
	unit := u.expr(c.LoopStep())
	u.iterated[c.AccuVar()] = unit
	defer delete(u.iterated, c.AccuVar())
	if result := u.expr(c.Result()); result != "" {
		return result
	}
	return ""
}

func (u *unitChecker) doc(unit string) string { return u.c.reg.Units()[unit].Doc }

func (u *unitChecker) problem(e celast.Expr, message string) {
	u.x.problem(u.c.ps, e, u.subject, message)
}

func (c *compiler) unitRule(name string) closure.UnitRule {
	if f := c.reg.FunctionsByName()[name]; f != nil {
		return f.Units
	}
	return operatorUnits[name]
}
