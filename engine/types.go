package engine

import (
	"fmt"
	"math"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
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

// parseScalar reads a YAML scalar or a flag's text as a value of a type.
func (r *Registry) parseScalar(t Type, text string) (ref.Val, error) {
	if t.unit != "" {
		n, err := r.units[t.unit].Parse(text)
		if err != nil {
			return nil, err
		}
		return types.Int(n), nil
	}
	switch t.cel {
	case cel.IntType:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return types.Int(n), nil
	case cel.DoubleType:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%q is not a finite number", text)
		}
		return types.Double(f), nil
	case cel.BoolType:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return types.Bool(b), nil
	case cel.StringType:
		return types.String(text), nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be written down", t)
}

// Format shows a value of a type as its user would write it.
func (r *Registry) format(t Type, v ref.Val) string {
	if v == nil {
		return "unset"
	}
	if n, ok := v.(types.Int); ok && t.unit != "" {
		return r.units[t.unit].Format(int64(n))
	}
	return fmt.Sprint(v.Value())
}

// inside is the type of what an optional value holds, and any other type itself.
func inside(t *types.Type) *types.Type {
	if isOptional(t) {
		return t.Parameters()[0]
	}
	return t
}
