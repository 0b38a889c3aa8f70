package engine

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

// isRecord tells a record from a list of records, which has a schema too.
func (t Type) isRecord() bool { return t.schema != nil && t.cel == t.schema.cel }

// elem is the type of a list's entries; ok is false for what is no list.
func (t Type) elem() (elem Type, ok bool) {
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

// inside is the type of what an optional value holds, and any other type itself.
func inside(t *types.Type) *types.Type {
	if isOptional(t) {
		return t.Parameters()[0]
	}
	return t
}

// isOptional reports whether a type is that of optional values.
func isOptional(t *types.Type) bool {
	return t.Kind() == types.OpaqueKind && t.TypeName() == optionalTypeName && len(t.Parameters()) == 1
}

// optionalTypeName is the name of CEL's type of optional values, which it does not export.
const optionalTypeName = "optional_type"
