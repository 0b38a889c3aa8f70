package compile

import (
	"fmt"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/internal/inline"
	"github.com/celvpa/celvpa/engine/source"
)

// alongAxes rewrites axes to plain CEL before type-checking; problems keep their positions.
func (c *compiler) alongAxes(s source.Scalar, tree *inline.Tree, subject string) {
	if len(c.reg.Axes()) == 0 {
		return
	}
	x := &axisRewriter{Tree: tree, c: c, s: s, subject: subject}
	x.unroll()
	if c.axis != nil {
		x.substitute(x.Expr(), c.axis.Axis.Name, c.axis.Value)
	}
	celast.PostOrderVisit(x.Expr(), celast.NewExprVisitor(x.choose))
}

// axisRewriter changes a parsed expression in place.
type axisRewriter struct {
	*inline.Tree
	c       *compiler
	s       source.Scalar
	subject string
}

// replace makes a node another one, with the same ID.
func (x *axisRewriter) replace(e, by celast.Expr) {
	e.SetKindCase(by)
	x.Rewritten = true
}

func (x *axisRewriter) problem(e celast.Expr, message string) {
	loc := x.SourceInfo().GetStartLocation(e.ID())
	x.c.ps.Inside(x.s, loc.Line(), loc.Column(), x.subject, message)
}

// substitute replaces name by value: r[name] becomes the field r.value, name alone a string.
func (x *axisRewriter) substitute(root celast.Expr, name, value string) {
	is := func(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == name }
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			if is(e) {
				x.replace(e, x.Make.NewLiteral(e.ID(), types.String(value)))
			}
		case celast.CallKind:
			call := e.AsCall()
			if args := call.Args(); len(args) == 2 && is(args[1]) {
				switch call.FunctionName() {
				case operators.Index:
					x.replace(e, x.Make.NewSelect(e.ID(), args[0], value))
				case operators.OptIndex:
					x.replace(e, x.Make.NewCall(e.ID(), operators.OptSelect, args[0], x.Make.NewLiteral(args[1].ID(), types.String(value))))
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
	x.replace(e, chosen)
}

// unroll expands resources.exists(r, …) to one condition per value; elsewhere resources is a list.
func (x *axisRewriter) unroll() {
	celast.PostOrderVisit(x.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
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
			copied := x.Copy(body)
			x.substitute(copied, loop.IterVar(), value)
			each = append(each, copied)
		}
		if join == "" {
			x.replace(e, x.Make.NewList(e.ID(), each, nil))
			return
		}
		all := each[0]
		for _, axis := range each[1:] {
			all = x.Make.NewCall(x.Number(e.ID()), join, all, axis)
		}
		x.replace(e, all)
	}))
	celast.PreOrderVisit(x.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.IdentKind {
			return
		}
		if axis := x.c.reg.AxisWithPlural(e.AsIdent()); axis != nil {
			var values []celast.Expr
			for _, value := range axis.Values {
				values = append(values, x.Make.NewLiteral(x.Number(e.ID()), types.String(value)))
			}
			x.replace(e, x.Make.NewList(e.ID(), values, nil))
		}
	}))
}
