package compile

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
)

// estimator bounds the sizes and costs of one expression from those of what it reads.
type estimator struct {
	scope *scopeEnv
	ast   *celast.AST
	loops []loopExtent
	out   *closure.Estimate
	grown *grown // the first part whose value may get too large
	odd   bool   // it has a construct of unknown cost
}

type loopExtent struct {
	name   string
	extent *lang.Extent
}

// grown is a part of an expression whose value may get too large.
type grown struct {
	expr   celast.Expr
	extent *lang.Extent
	text   bool
}

func estimateOf(ast *celast.AST, sc *scopeEnv) *estimator {
	e := &estimator{scope: sc, ast: ast, out: &closure.Estimate{Steady: true}}
	e.out.Extent, e.out.Own = e.expr(ast.Expr())
	return e
}

func (e *estimator) expr(x celast.Expr) (*lang.Extent, closure.Cost) {
	one := closure.Cost{Steps: 1}
	switch x.Kind() {
	case celast.LiteralKind:
		switch v := x.AsLiteral().(type) {
		case types.String:
			return lang.TextExtent(int64(len(v))), one
		case types.Bytes:
			return lang.TextExtent(int64(len(v))), one
		}
		return lang.ScalarExtent, one
	case celast.IdentKind:
		return e.ident(x), one
	case celast.SelectKind:
		return e.field(x)
	case celast.ListKind:
		return e.list(x)
	case celast.MapKind:
		return e.mapping(x)
	case celast.CallKind:
		return e.call(x)
	case celast.ComprehensionKind:
		return e.comprehension(x)
	}
	e.odd = true
	return lang.ScalarExtent, one
}

func (e *estimator) ident(x celast.Expr) *lang.Extent {
	for _, l := range slices.Backward(e.loops) {
		if l.name == x.AsIdent() {
			return l.extent
		}
	}
	v := e.scope.estimates[closure.IdentName(x)]
	if v == nil {
		e.out.Steady = e.out.Steady && e.scope.slots[closure.IdentName(x)].Steady
		return lang.FactExtent(e.ast.GetType(x.ID()))
	}
	for _, read := range v.Reads {
		note(e.out, read)
	}
	note(e.out, v)
	e.out.Steady = e.out.Steady && v.Steady
	return v.Extent
}

func note(e, v *closure.Estimate) {
	if !slices.Contains(e.Reads, v) {
		e.Reads = append(e.Reads, v)
	}
}

func (e *estimator) field(x celast.Expr) (*lang.Extent, closure.Cost) {
	sel := x.AsSelect()
	size, c := e.member(x, sel.Operand(), sel.FieldName())
	if sel.IsTestOnly() {
		return lang.ScalarExtent, c
	}
	return size, c
}

// member estimates a record field or map entry, also behind .?
func (e *estimator) member(x, of celast.Expr, field string) (*lang.Extent, closure.Cost) {
	operand, c := e.expr(of)
	c.Steps++
	if params := e.params(of); params != nil {
		if text, ok := params.Field(field).(types.String); ok {
			return lang.TextExtent(int64(len(text))), c
		}
	}
	switch lang.Inside(e.ast.GetType(of.ID())).Kind() {
	case types.StructKind:
		return lang.FieldExtent(e.ast.GetType(x.ID())), c
	case types.DynKind, types.AnyKind:
		return lang.Larger(operand.Entry(), lang.AnyField), c
	}
	return operand.Entry(), c
}

// params returns the parameter record that an expression selects, or nil.
func (e *estimator) params(x celast.Expr) *lang.Record {
	if x.Kind() == celast.IdentKind {
		if closure.IdentName(x) != "params" || slices.ContainsFunc(e.loops, func(l loopExtent) bool { return l.name == x.AsIdent() }) {
			return nil
		}
		return e.scope.params
	}
	operand, field, ok := closure.SelectedFields(x)
	if !ok {
		return nil
	}
	params := e.params(operand)
	if params == nil {
		return nil
	}
	nested, _ := params.Field(field).(*lang.Record)
	return nested
}

func (e *estimator) list(x celast.Expr) (*lang.Extent, closure.Cost) {
	elements := x.AsList().Elements()
	out, c := &lang.Extent{Length: int64(len(elements)), Bytes: lang.ListBytes}, e.making(len(elements))
	for _, element := range elements {
		one, taken := e.expr(element)
		out.Bytes, out.Elem, c = lang.SaturatingAdd(out.Bytes, one.Bytes), lang.Larger(out.Elem, one), c.Plus(taken)
	}
	return e.bounded(x, out), c
}

func (e *estimator) mapping(x celast.Expr) (*lang.Extent, closure.Cost) {
	entries := x.AsMap().Entries()
	out, c := &lang.Extent{Length: int64(len(entries)), Bytes: lang.ListBytes}, e.making(4*len(entries))
	for _, entry := range entries {
		key, takenByKey := e.expr(entry.AsMapEntry().Key())
		value, taken := e.expr(entry.AsMapEntry().Value())
		out.Bytes = lang.SaturatingAdd(out.Bytes, lang.SaturatingAdd(key.Bytes, value.Bytes))
		out.Key, out.Elem, c = lang.Larger(out.Key, key), lang.Larger(out.Elem, value), c.Plus(takenByKey).Plus(taken)
	}
	if out.Key == nil {
		out.Key = lang.ScalarExtent
	}
	return e.bounded(x, out), c
}

// making is the cost of building a list, without its entries.
func (e *estimator) making(entries int) closure.Cost {
	return closure.Cost{Steps: 1 + int64(entries), Bytes: lang.SaturatingTimes(int64(entries), lang.ValueBytes, lang.ListBytes)}
}

// bounded records the first value that may get too large.
func (e *estimator) bounded(x celast.Expr, size *lang.Extent) *lang.Extent {
	text := false
	switch e.ast.GetType(x.ID()).Kind() {
	case types.StringKind, types.BytesKind:
		text = true
	}
	if e.grown == nil && (size.Bytes > lang.MaxList || text && size.Length > lang.MaxText) {
		e.grown = &grown{x, size, text}
	}
	return size
}

func (e *estimator) comprehension(x celast.Expr) (*lang.Extent, closure.Cost) {
	c := x.AsComprehension()
	macro, when, value := closure.WrittenAs(c)
	if macro == closure.OtherMacro {
		e.odd = true
		return lang.ScalarExtent, closure.Cost{}
	}
	over, before := e.expr(c.IterRange())
	e.loops = append(e.loops, loopExtent{c.IterVar(), over.Looped()})
	defer func() { e.loops = e.loops[:len(e.loops)-1] }()
	each, given := closure.Cost{Steps: 3}, over.Looped()
	if when != nil {
		_, taken := e.expr(when)
		each = each.Plus(taken)
	}
	if value != nil {
		var taken closure.Cost
		given, taken = e.expr(value)
		each = each.Plus(taken)
	}
	out := before.Plus(each.Times(over.Length)).Plus(closure.Cost{Steps: 2})
	switch macro {
	case closure.FilterMacro, closure.MapMacro:
		out.Bytes = lang.SaturatingAdd(out.Bytes, lang.SaturatingTimes(over.Length, lang.ValueBytes, lang.ListBytes))
		return e.bounded(x, lang.ListExtent(over.Length, given)), out
	}
	return lang.ScalarExtent, out
}

func (e *estimator) call(x celast.Expr) (*lang.Extent, closure.Cost) {
	if operand, field, ok := closure.OptionalField(x); ok {
		return e.member(x, operand, field)
	}
	call := x.AsCall()
	exprs := call.Args()
	if call.IsMemberFunction() {
		exprs = append([]celast.Expr{call.Target()}, exprs...)
	}
	args := make([]*lang.Extent, len(exprs))
	costs := make([]closure.Cost, len(exprs))
	total := closure.Cost{Steps: 1}
	for i, arg := range exprs {
		args[i], costs[i] = e.expr(arg)
		total = total.Plus(costs[i])
	}
	given := e.ast.GetType(x.ID())
	switch call.FunctionName() {
	case operators.Conditional:
		return lang.Larger(args[1], args[2]), closure.Cost{Steps: 1}.Plus(costs[0]).Plus(costs[1].Or(costs[2]))
	case operators.Add:
		return e.sum(x, args, total)
	case operators.Index, operators.OptIndex:
		if t := lang.Inside(e.ast.GetType(exprs[0].ID())).Kind(); t == types.DynKind || t == types.AnyKind {
			return lang.Larger(args[0].Entry(), lang.AnyField), total
		}
		return args[0].Entry(), total
	case operators.In:
		return lang.ScalarExtent, total.Plus(closure.Cost{Steps: args[1].Length}).Plus(closure.Going(min(args[1].Bytes, lang.SaturatingTimes(args[1].Length, args[0].Bytes, 0))))
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return lang.ScalarExtent, total.Plus(closure.Going(min(args[0].Bytes, args[1].Bytes)))
	case overloads.TypeConvertDyn:
		return args[0], total
	case overloads.TypeConvertString, overloads.TypeConvertBytes:
		size := lang.TextExtent(max(lang.NumberText, args[0].Length))
		total.Bytes = lang.SaturatingAdd(total.Bytes, size.Length)
		return e.bounded(x, size), total.Plus(closure.Going(size.Bytes))
	case overloads.Size:
		if args[0].Elem == nil {
			total = total.Plus(closure.Going(args[0].Length))
		}
		return lang.ScalarExtent, total
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse:
		return lang.ScalarExtent, total
	}
	if ids := e.ast.GetOverloadIDs(x.ID()); len(ids) == 1 {
		switch ids[0] {
		case closure.OptionalOr, closure.OptionalOrValue:
			return lang.Larger(args[0], args[1]), total
		case closure.OptionalValue:
			return args[0], total
		case closure.OptionalHasValue:
			return lang.ScalarExtent, total
		}
	}
	for _, arg := range args {
		total = total.Plus(closure.Going(arg.Bytes))
	}
	size := lang.FactExtent(given)
	if size != lang.ScalarExtent {
		total.Bytes = lang.SaturatingAdd(total.Bytes, size.Bytes)
	}
	return size, total
}

func (e *estimator) sum(x celast.Expr, args []*lang.Extent, total closure.Cost) (*lang.Extent, closure.Cost) {
	switch e.ast.GetType(x.ID()).Kind() {
	case types.IntKind, types.UintKind, types.DoubleKind:
		return lang.ScalarExtent, total
	case types.StringKind, types.BytesKind:
		out := lang.Concatenated(args[0], args[1])
		return e.bounded(x, out), total.Plus(closure.Cost{Steps: out.Length / lang.StepBytes, Bytes: out.Length})
	}
	out := lang.Concatenated(args[0], args[1])
	return e.bounded(x, out), total.Plus(closure.Cost{Steps: out.Length, Bytes: lang.SaturatingTimes(out.Length, lang.ValueBytes, lang.ListBytes)})
}
