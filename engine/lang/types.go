// Package lang defines the types and values of the rule language: integers with units, records
// whose fields may be unset, lists, and axes. It also provides the exact arithmetic and the
// resource limits of expressions.
//
// Cells hold values unboxed, so that numbers do not allocate at run time.
package lang

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// Type is the type of a fact, a parameter or an output, with its unit if it has one.
type Type struct {
	cel    *cel.Type
	unit   string
	schema *Schema
}

// The scalar types of the language. Int is 64-bit.
var (
	Int    = Type{cel: cel.IntType}
	Double = Type{cel: cel.DoubleType}
	Bool   = Type{cel: cel.BoolType}
	String = Type{cel: cel.StringType}
)

// Texts are texts by key, such as labels. CEL evaluates expressions that read them.
var Texts = Type{cel: cel.MapType(cel.StringType, cel.StringType)}

// IntOf is an integer in a unit of the registry, e.g. milli-cores or bytes.
func IntOf(unit string) Type { return Type{cel: cel.IntType, unit: unit} }

// RecordOf is a record type. Any of its fields may be unset.
func RecordOf(s *Schema) Type { return Type{cel: s.cel, schema: s} }

// ListOf is a list of records or strings.
func ListOf(elem Type) Type { return Type{cel: cel.ListType(elem.cel), schema: elem.schema} }

// OpaqueOf is a host type that rules can only pass to host functions. Functions with unit rules
// treat the value as an amount in unit; empty = none.
func OpaqueOf(t *cel.Type, unit string) Type { return Type{cel: t, unit: unit} }

// IsOpaque reports whether it is a host type.
func (t Type) IsOpaque() bool { return t.cel.Kind() == types.OpaqueKind }

// IsRecord is false for a list of records, which also has a schema.
func (t Type) IsRecord() bool { return t.schema != nil && t.cel == t.schema.cel }

// Elem is the type of a list's entries; ok is false for other types.
func (t Type) Elem() (elem Type, ok bool) {
	if t.cel.Kind() != types.ListKind {
		return Type{}, false
	}
	return Type{cel: t.cel.Parameters()[0], schema: t.schema}, true
}

// String formats the type as a rule author writes it, e.g. int (cpu).
func (t Type) String() string {
	name := t.cel.String()
	if t.unit != "" {
		name += " (" + t.unit + ")"
	}
	return name
}

// Unit is a unit of measure for integers, with its parser and formatter.
type Unit struct {
	Name   string // used as `type` of params, e.g. cpu
	Func   string // helper that parses a literal, e.g. cpu('250m'); empty = none
	Doc    string // e.g. "milli-cores"
	Parse  func(string) (int64, error)
	Format func(int64) string
}

// Inside is the type in an optional, or t itself for any other type.
func Inside(t *types.Type) *types.Type {
	if IsOptional(t) {
		return t.Parameters()[0]
	}
	return t
}

// IsOptional reports whether t is an optional type.
func IsOptional(t *types.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == OptionalTypeName && len(t.Parameters()) == 1
}

// OptionalTypeName is CEL's name for optional types, which cel-go does not export.
const OptionalTypeName = "optional_type"

// CELType is the type in CEL's type system.
func (t Type) CELType() *cel.Type { return t.cel }

// Schema is the shape of a record, or of a list's records; nil for other types.
func (t Type) Schema() *Schema { return t.schema }

// Unit is the unit of integers; empty for plain numbers.
func (t Type) Unit() string { return t.unit }

// TypeOf combines an expression's CEL type with its unit.
func TypeOf(t *cel.Type, unit string) Type { return Type{cel: t, unit: unit} }
