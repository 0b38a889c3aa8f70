package engine

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// estimator bounds sizes and costs of one expression, from those of the variables and facts that it reads.
type estimator struct {
	scope *scopeEnv
	ast   *celast.AST
	loops []loopExtent
	out   *estimate
	grown *grown // the first part whose value may get too large
	odd   bool   // there is a construct whose cost is not known
}

type loopExtent struct {
	name   string
	extent *extent
}

// grown is a part of an expression whose value may get too large.
type grown struct {
	expr   celast.Expr
	extent *extent
	text   bool
}

// estimateOf bounds the size and the cost of an expression.
func estimateOf(ast *celast.AST, sc *scopeEnv) *estimator {
	e := &estimator{scope: sc, ast: ast, out: &estimate{steady: true}}
	e.out.extent, e.out.own = e.expr(ast.Expr())
	return e
}

func (e *estimator) expr(x celast.Expr) (*extent, cost) {
	one := cost{steps: 1}
	switch x.Kind() {
	case celast.LiteralKind:
		switch v := x.AsLiteral().(type) {
		case types.String:
			return textExtent(int64(len(v))), one
		case types.Bytes:
			return textExtent(int64(len(v))), one
		}
		return scalarExtent, one
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
	return scalarExtent, one
}

func (e *estimator) ident(x celast.Expr) *extent {
	for _, l := range slices.Backward(e.loops) {
		if l.name == x.AsIdent() {
			return l.extent
		}
	}
	v := e.scope.estimates[identName(x)]
	if v == nil {
		e.out.steady = e.out.steady && e.scope.slots[identName(x)].steady
		return factExtent(e.ast.GetType(x.ID()))
	}
	for _, read := range v.reads {
		note(e.out, read)
	}
	note(e.out, v)
	e.out.steady = e.out.steady && v.steady
	return v.extent
}

// note notes a variable that an expression reads.
func note(e, v *estimate) {
	if !slices.Contains(e.reads, v) {
		e.reads = append(e.reads, v)
	}
}

func (e *estimator) field(x celast.Expr) (*extent, cost) {
	sel := x.AsSelect()
	size, c := e.member(x, sel.Operand(), sel.FieldName())
	if sel.IsTestOnly() {
		return scalarExtent, c
	}
	return size, c
}

// member is a field of a record, or an entry of a map, also behind .?
func (e *estimator) member(x, of celast.Expr, field string) (*extent, cost) {
	operand, c := e.expr(of)
	c.steps++
	if params := e.params(of); params != nil {
		if text, ok := params.Field(field).(types.String); ok {
			return textExtent(int64(len(text))), c
		}
	}
	switch inside(e.ast.GetType(of.ID())).Kind() {
	case types.StructKind:
		return fieldExtent(e.ast.GetType(x.ID())), c
	case types.DynKind, types.AnyKind:
		return larger(operand.entry(), anyField), c
	}
	return operand.entry(), c
}

// params is the record of parameters that an expression gives, nil for any other.
func (e *estimator) params(x celast.Expr) *Record {
	if x.Kind() == celast.IdentKind {
		if identName(x) != "params" || slices.ContainsFunc(e.loops, func(l loopExtent) bool { return l.name == x.AsIdent() }) {
			return nil
		}
		return e.scope.params
	}
	operand, field, ok := selected(x)
	if !ok {
		return nil
	}
	params := e.params(operand)
	if params == nil {
		return nil
	}
	nested, _ := params.Field(field).(*Record)
	return nested
}

func (e *estimator) list(x celast.Expr) (*extent, cost) {
	elements := x.AsList().Elements()
	out, c := &extent{length: int64(len(elements)), bytes: listBytes}, e.making(len(elements))
	for _, element := range elements {
		one, taken := e.expr(element)
		out.bytes, out.elem, c = SaturatingAdd(out.bytes, one.bytes), larger(out.elem, one), c.plus(taken)
	}
	return e.bounded(x, out), c
}

func (e *estimator) mapping(x celast.Expr) (*extent, cost) {
	entries := x.AsMap().Entries()
	out, c := &extent{length: int64(len(entries)), bytes: listBytes}, e.making(4*len(entries))
	for _, entry := range entries {
		key, takenByKey := e.expr(entry.AsMapEntry().Key())
		value, taken := e.expr(entry.AsMapEntry().Value())
		out.bytes = SaturatingAdd(out.bytes, SaturatingAdd(key.bytes, value.bytes))
		out.key, out.elem, c = larger(out.key, key), larger(out.elem, value), c.plus(takenByKey).plus(taken)
	}
	if out.key == nil {
		out.key = scalarExtent
	}
	return e.bounded(x, out), c
}

// making is the cost of a list of so many entries, without that of the entries.
func (e *estimator) making(entries int) cost {
	return cost{steps: 1 + int64(entries), bytes: saturatingTimes(int64(entries), valueBytes, listBytes)}
}

// bounded notes values that may get too large.
func (e *estimator) bounded(x celast.Expr, size *extent) *extent {
	text := false
	switch e.ast.GetType(x.ID()).Kind() {
	case types.StringKind, types.BytesKind:
		text = true
	}
	if e.grown == nil && (size.bytes > maxList || text && size.length > maxText) {
		e.grown = &grown{x, size, text}
	}
	return size
}

func (e *estimator) comprehension(x celast.Expr) (*extent, cost) {
	c := x.AsComprehension()
	macro, when, value := written(c)
	if macro == otherMacro {
		e.odd = true
		return scalarExtent, cost{}
	}
	over, before := e.expr(c.IterRange())
	e.loops = append(e.loops, loopExtent{c.IterVar(), over.looped()})
	defer func() { e.loops = e.loops[:len(e.loops)-1] }()
	each, given := cost{steps: 3}, over.looped()
	if when != nil {
		_, taken := e.expr(when)
		each = each.plus(taken)
	}
	if value != nil {
		var taken cost
		given, taken = e.expr(value)
		each = each.plus(taken)
	}
	out := before.plus(each.times(over.length)).plus(cost{steps: 2})
	switch macro {
	case filterMacro, mapMacro:
		out.bytes = SaturatingAdd(out.bytes, saturatingTimes(over.length, valueBytes, listBytes))
		return e.bounded(x, listExtent(over.length, given)), out
	}
	return scalarExtent, out
}

func (e *estimator) call(x celast.Expr) (*extent, cost) {
	if operand, field, ok := optionalField(x); ok {
		return e.member(x, operand, field)
	}
	call := x.AsCall()
	exprs := call.Args()
	if call.IsMemberFunction() {
		exprs = append([]celast.Expr{call.Target()}, exprs...)
	}
	args := make([]*extent, len(exprs))
	costs := make([]cost, len(exprs))
	total := cost{steps: 1}
	for i, arg := range exprs {
		args[i], costs[i] = e.expr(arg)
		total = total.plus(costs[i])
	}
	given := e.ast.GetType(x.ID())
	switch call.FunctionName() {
	case operators.Conditional:
		return larger(args[1], args[2]), cost{steps: 1}.plus(costs[0]).plus(costs[1].or(costs[2]))
	case operators.Add:
		return e.sum(x, args, total)
	case operators.Index, operators.OptIndex:
		if t := inside(e.ast.GetType(exprs[0].ID())).Kind(); t == types.DynKind || t == types.AnyKind {
			return larger(args[0].entry(), anyField), total
		}
		return args[0].entry(), total
	case operators.In:
		return scalarExtent, total.plus(cost{steps: args[1].length}).plus(going(min(args[1].bytes, saturatingTimes(args[1].length, args[0].bytes, 0))))
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return scalarExtent, total.plus(going(min(args[0].bytes, args[1].bytes)))
	case overloads.TypeConvertDyn:
		return args[0], total
	case overloads.TypeConvertString, overloads.TypeConvertBytes:
		size := textExtent(max(numberText, args[0].length))
		total.bytes = SaturatingAdd(total.bytes, size.length)
		return e.bounded(x, size), total.plus(going(size.bytes))
	case overloads.Size:
		if args[0].elem == nil {
			total = total.plus(going(args[0].length))
		}
		return scalarExtent, total
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse:
		return scalarExtent, total
	}
	if ids := e.ast.GetOverloadIDs(x.ID()); len(ids) == 1 {
		switch ids[0] {
		case optionalOr, optionalOrValue:
			return larger(args[0], args[1]), total
		case optionalValue:
			return args[0], total
		case optionalHasValue:
			return scalarExtent, total
		}
	}
	for _, arg := range args {
		total = total.plus(going(arg.bytes))
	}
	size := factExtent(given)
	if size != scalarExtent {
		total.bytes = SaturatingAdd(total.bytes, size.bytes)
	}
	return size, total
}

// sum is + of numbers, texts or lists.
func (e *estimator) sum(x celast.Expr, args []*extent, total cost) (*extent, cost) {
	switch e.ast.GetType(x.ID()).Kind() {
	case types.IntKind, types.UintKind, types.DoubleKind:
		return scalarExtent, total
	case types.StringKind, types.BytesKind:
		out := concatenated(args[0], args[1])
		return e.bounded(x, out), total.plus(cost{steps: out.length / stepBytes, bytes: out.length})
	}
	out := concatenated(args[0], args[1])
	return e.bounded(x, out), total.plus(cost{steps: out.length, bytes: saturatingTimes(out.length, valueBytes, listBytes)})
}
