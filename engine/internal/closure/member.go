package closure

import (
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// member finds the place of a field of the record that an expression gives, or that its optional value holds: one that
// holds nothing reads as a record without fields.
func (t *tree) member(e celast.Expr, field string) (operand node, at *place, ok bool) {
	typ := t.ast.GetType(e.ID())
	schema := t.Vars.Schemas[lang.Inside(typ).TypeName()]
	if schema == nil {
		return node{}, nil, false
	}
	i, ok := schema.Index()[field]
	if !ok {
		return node{}, nil, false
	}
	if operand, ok = t.node(e); !ok {
		return node{}, nil, false
	}
	from := operand.place
	if lang.IsOptional(typ) {
		if from, ok = holder(operand, schema.Empty()); !ok {
			return node{}, nil, false
		}
		return operand, from.below(schema, i), true
	}
	record, ok := Typed[*lang.Record](operand)
	if from == nil {
		from = &place{base: record}
	}
	return operand, from.below(schema, i), ok
}

// byName is code for operand.?field, and for 'field' in operand.
func (t *tree) byName(args []celast.Expr, optional bool) (n node, ok bool) {
	record, name := args[0], args[1]
	if !optional {
		record, name = args[1], args[0]
	}
	field, ok := LiteralText(name)
	if !ok {
		return node{}, false
	}
	operand, at, ok := t.member(record, field)
	switch {
	case !ok:
		return node{}, false
	case optional:
		return perhaps(at, operand), true
	}
	return fold(at.has(), operand), true
}

// unwrapped is code for the value of an optional, which fails where there is none, or gives what orValue says.
func (t *tree) unwrapped(e celast.Expr, nodes []node, args []celast.Expr) (n node, ok bool) {
	result := t.ast.GetType(e.ID())
	if !lang.Inside(t.ast.GetType(args[0].ID())).IsExactType(result) {
		return node{}, false
	}
	if len(nodes) > 1 {
		if t.kindOf(result) == noElements || !t.ast.GetType(args[1].ID()).IsExactType(result) {
			return node{}, false
		}
		return valueOr(nodes[0], nodes[1])
	}
	otherwise, ok := failing(t.kindOf(result), errNoValue)
	if !ok {
		return node{}, false
	}
	return valueOr(nodes[0], otherwise)
}

// failing is a node that fails where a value of a kind is wanted.
func failing(kind elementKind, err error) (n node, ok bool) {
	switch kind {
	case intElements:
		return failsWith[int64](err), true
	case doubleElements:
		return failsWith[float64](err), true
	case boolElements:
		return failsWith[bool](err), true
	case textElements:
		return failsWith[string](err), true
	case recordElements:
		return failsWith[*lang.Record](err), true
	case boxedElements:
		return failsWith[ref.Val](err), true
	}
	return node{}, false
}

func failsWith[T any](err error) node {
	return dynamic(func(f *Frame) (out T) {
		f.fail(err)
		return out
	})
}
