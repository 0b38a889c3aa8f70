// Package lang has the types and values of the rule language: integers with units, records with
// fields that may be unset, lists, and axes. It also has the exact arithmetic that rules calculate
// with, and the limits that bound what an expression may take.
//
// Values are kept unboxed in cells, so that running rules allocates nothing for numbers.
package lang

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// Type is the type of a fact, a parameter or an output, with its unit where it has one.
type Type struct {
	cel    *cel.Type
	unit   string
	schema *Schema
}

// The scalar types of the language. Numbers are 64-bit integers unless stated.
var (
	Int    = Type{cel: cel.IntType}
	Double = Type{cel: cel.DoubleType}
	Bool   = Type{cel: cel.BoolType}
	String = Type{cel: cel.StringType}
)

// IntOf is an integer counted in a unit of the registry, e.g. milli-cores or bytes.
func IntOf(unit string) Type { return Type{cel: cel.IntType, unit: unit} }

// RecordOf is a structure with named fields, each of which may be unset.
func RecordOf(s *Schema) Type { return Type{cel: s.cel, schema: s} }

// ListOf is a list of records or strings.
func ListOf(elem Type) Type { return Type{cel: cel.ListType(elem.cel), schema: elem.schema} }

// OpaqueOf is a host type that rules can only hand to the host's functions. The unit is that of the amounts inside it,
// empty for none: functions with unit rules see it as if the value were such an amount.
func OpaqueOf(t *cel.Type, unit string) Type { return Type{cel: t, unit: unit} }

// IsOpaque reports whether it is a type of the host.
func (t Type) IsOpaque() bool { return t.cel.Kind() == types.OpaqueKind }

// IsRecord tells a record from a list of records, which has a schema too.
func (t Type) IsRecord() bool { return t.schema != nil && t.cel == t.schema.cel }

// Elem is the type of a list's entries; ok is false for what is no list.
func (t Type) Elem() (elem Type, ok bool) {
	if t.cel.Kind() != types.ListKind {
		return Type{}, false
	}
	return Type{cel: t.cel.Parameters()[0], schema: t.schema}, true
}

// String names the type as a rule author would, e.g. int (cpu).
func (t Type) String() string {
	name := t.cel.String()
	if t.unit != "" {
		name += " (" + t.unit + ")"
	}
	return name
}

// Unit is a measure of integers: how people write it, and how it is shown back to them.
type Unit struct {
	Name   string                      // used as `type` of params, e.g. cpu
	Func   string                      // helper that reads a literal in expressions, e.g. cpu('250m'); empty = none
	Doc    string                      // what one is, e.g. "milli-cores"
	Parse  func(string) (int64, error) // from the written form
	Format func(int64) string          // to the written form
}

// Inside is the type of what an optional value holds, and any other type itself.
func Inside(t *types.Type) *types.Type {
	if IsOptional(t) {
		return t.Parameters()[0]
	}
	return t
}

// IsOptional reports whether a type is that of optional values.
func IsOptional(t *types.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == OptionalTypeName && len(t.Parameters()) == 1
}

// OptionalTypeName is the name of CEL's type of optional values, which it does not export.
const OptionalTypeName = "optional_type"

// CELType is the type as CEL's checker has it.
func (t Type) CELType() *cel.Type { return t.cel }

// Schema is the shape of a record, or of the records in a list; nil for other types.
func (t Type) Schema() *Schema { return t.schema }

// Unit is what integers of the type count, empty for plain numbers.
func (t Type) Unit() string { return t.unit }

// TypeOf is the type of an expression: what CEL's checker says of it, and the unit of the integer that it gives.
func TypeOf(t *cel.Type, unit string) Type { return Type{cel: t, unit: unit} }
