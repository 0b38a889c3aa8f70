package compile

import (
	"fmt"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/source"
)

// alongAxes rewrites axes to plain CEL before type-checking; problems keep their positions.
func (c *compiler) alongAxes(s source.Scalar, ast *cel.Ast, subject string) (ok bool) {
	if len(c.reg.Axes()) == 0 {
		return true
	}
	before := len(c.ps.List)
	x := &axisRewriter{c: c, s: s, subject: subject, ast: ast.NativeRep(), make: celast.NewExprFactory()}
	x.unroll()
	if c.axis != nil {
		x.substitute(x.ast.Expr(), c.axis.Axis.Name, c.axis.Value)
	}
	celast.PostOrderVisit(x.ast.Expr(), celast.NewExprVisitor(x.choose))
	return len(c.ps.List) == before
}

// axisRewriter changes a parsed expression in place.
type axisRewriter struct {
	c       *compiler
	s       source.Scalar
	subject string
	ast     *celast.AST
	make    celast.ExprFactory
	last    int64 // highest node ID so far
}

func (x *axisRewriter) problem(e celast.Expr, message string) {
	loc := x.ast.SourceInfo().GetStartLocation(e.ID())
	x.c.ps.Inside(x.s, loc.Line(), loc.Column(), x.subject, message)
}

// substitute replaces name by value: r[name] becomes the field r.value, name alone a string.
func (x *axisRewriter) substitute(root celast.Expr, name, value string) {
	is := func(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == name }
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			if is(e) {
				e.SetKindCase(x.make.NewLiteral(e.ID(), types.String(value)))
			}
		case celast.CallKind:
			call := e.AsCall()
			if args := call.Args(); len(args) == 2 && is(args[1]) {
				switch call.FunctionName() {
				case operators.Index:
					e.SetKindCase(x.make.NewSelect(e.ID(), args[0], value))
				case operators.OptIndex:
					e.SetKindCase(x.make.NewCall(e.ID(), operators.OptSelect, args[0], x.make.NewLiteral(args[1].ID(), types.String(value))))
				}
			}
		case celast.ComprehensionKind:
			if loop := e.AsComprehension(); loop.IterVar() == name || loop.IterVar2() == name {
				x.problem(e, fmt.Sprintf("%s is the name of an axis here; call the variable something else", name))
			}
		}
	}))
}

// choose folds a ternary that compares two literals: the other branch may have another unit.
func (x *axisRewriter) choose(e celast.Expr) {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.Conditional {
		return
	}
	branches := e.AsCall().Args()
	if branches[0].Kind() != celast.CallKind || len(branches[0].AsCall().Args()) != 2 {
		return
	}
	compared := branches[0].AsCall()
	a, isText := closure.LiteralText(compared.Args()[0])
	b, both := closure.LiteralText(compared.Args()[1])
	equals := compared.FunctionName() == operators.Equals
	if !isText || !both || !equals && compared.FunctionName() != operators.NotEquals {
		return
	}
	chosen := branches[2]
	if (a == b) == equals {
		chosen = branches[1]
	}
	e.SetKindCase(chosen)
}

// unroll expands resources.exists(r, …) to one condition per value; elsewhere resources is a list.
func (x *axisRewriter) unroll() {
	celast.PostOrderVisit(x.ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.ComprehensionKind || e.AsComprehension().IterRange().Kind() != celast.IdentKind {
			return
		}
		loop := e.AsComprehension()
		axis := x.c.reg.AxisWithPlural(loop.IterRange().AsIdent())
		if axis == nil {
			return
		}
		var body celast.Expr
		join := ""
		switch macro, when, value := closure.WrittenAs(loop); {
		case macro == closure.ExistsMacro:
			body, join = when, operators.LogicalOr
		case macro == closure.AllMacro:
			body, join = when, operators.LogicalAnd
		case macro == closure.MapMacro && when == nil:
			body = value
		default:
			x.problem(e, fmt.Sprintf("%s takes exists, all and map with one expression", axis.Plural))
			return
		}
		var each []celast.Expr
		for _, value := range axis.Values {
			one := x.copy(body)
			x.substitute(one, loop.IterVar(), value)
			each = append(each, one)
		}
		if join == "" {
			e.SetKindCase(x.make.NewList(e.ID(), each, nil))
			return
		}
		all := each[0]
		for _, one := range each[1:] {
			all = x.make.NewCall(x.number(e.ID()), join, all, one)
		}
		e.SetKindCase(all)
	}))
	celast.PreOrderVisit(x.ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.IdentKind {
			return
		}
		if axis := x.c.reg.AxisWithPlural(e.AsIdent()); axis != nil {
			var values []celast.Expr
			for _, value := range axis.Values {
				values = append(values, x.make.NewLiteral(x.number(e.ID()), types.String(value)))
			}
			e.SetKindCase(x.make.NewList(e.ID(), values, nil))
		}
	}))
}

// copy returns a copy with fresh IDs at the same positions.
func (x *axisRewriter) copy(e celast.Expr) celast.Expr {
	out := x.make.CopyExpr(e)
	out.RenumberIDs(x.number)
	return out
}

// number returns a fresh ID at the position of another node.
func (x *axisRewriter) number(like int64) int64 {
	if x.last == 0 {
		x.last = celast.MaxID(x.ast)
	}
	x.last++
	info := x.ast.SourceInfo()
	if at, found := info.GetOffsetRange(like); found {
		info.SetOffsetRange(x.last, at)
	}
	return x.last
}
