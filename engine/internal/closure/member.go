package closure

import (
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// member finds the place of a field in the record, or optional record, that an expression returns.
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
	at = from.below(schema, i)
	return operand, at, ok
}

// byName compiles operand.?field and 'field' in operand.
func (t *tree) byName(args []celast.Expr, optional bool, result *types.Type) (n node, ok bool) {
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

// unwrapped compiles value and orValue.
func (t *tree) unwrapped(e celast.Expr, nodes []node, args []celast.Expr) (n node, ok bool) {
	result := t.ast.GetType(e.ID())
	if !lang.Inside(t.ast.GetType(args[0].ID())).IsExactType(result) {
		return node{}, false
	}
	if len(nodes) > 1 {
		if t.formOf(result) == noForm || !t.ast.GetType(args[1].ID()).IsExactType(result) {
			return node{}, false
		}
		return valueOr(nodes[0], nodes[1])
	}
	as := t.formOf(result)
	if as == noForm {
		return node{}, false
	}
	return valueOr(nodes[0], as.unbox(func(f *Frame) ref.Val {
		f.fail(errNoValue)
		return nil
	}))
}

// InRecordPrefix begins the overload IDs of 'field' in record.
const InRecordPrefix = "in_record/"

func isInRecord(overload string) bool { return strings.HasPrefix(overload, InRecordPrefix) }

// FieldInRecord matches an expression of the form 'field' in record.
func FieldInRecord(ast *celast.AST, e celast.Expr) (field, record celast.Expr, ok bool) {
	overloads := ast.GetOverloadIDs(e.ID())
	if e.Kind() != celast.CallKind || len(overloads) != 1 || !isInRecord(overloads[0]) {
		return nil, nil, false
	}
	args := e.AsCall().Args()
	return args[0], args[1], true
}
