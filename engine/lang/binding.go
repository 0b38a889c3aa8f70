package lang

import (
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Binding is a record type whose records are built from a T. One declaration per field gives its
// name, its type and its source, so none can be declared without being bound, or the reverse.
type Binding[T any] struct {
	*Schema
	fill []func(T, *Cell)
}

// FieldFrom is a field of a binding. IntFrom and its siblings build one.
type FieldFrom[T any] struct {
	Field
	fill func(T, *Cell)
}

// Bind declares a record type. It panics as NewSchema does.
func Bind[T any](name string, fields ...FieldFrom[T]) *Binding[T] {
	declared, fill := make([]Field, len(fields)), make([]func(T, *Cell), len(fields))
	for i, f := range fields {
		declared[i], fill[i] = f.Field, f.fill
	}
	return &Binding[T]{Schema: NewSchema(name, declared...), fill: fill}
}

// Of builds the record of a value.
func (b *Binding[T]) Of(v T) *Record {
	r := b.New()
	for i, fill := range b.fill {
		fill(v, &r.cells[i])
	}
	return r
}

type integer interface{ ~int | ~int32 | ~int64 }

// ForRules is a field that only rules write.
func ForRules[T any](name string, t Type, doc string) FieldFrom[T] {
	return FieldFrom[T]{Field{name, t, doc}, func(T, *Cell) {}}
}

// IntFrom is an integer field; t may have a unit.
func IntFrom[T any, N integer](name string, t Type, doc string, get func(T) N) FieldFrom[T] {
	mustBeInt(name, t)
	return FieldFrom[T]{Field{name, t, doc}, func(v T, c *Cell) { *c = Cell{Kind: IntCell, Bits: uint64(get(v))} }}
}

// IntIf is an integer field that is unset if get returns false.
func IntIf[T any, N integer](name string, t Type, doc string, get func(T) (N, bool)) FieldFrom[T] {
	mustBeInt(name, t)
	return FieldFrom[T]{Field{name, t, doc}, func(v T, c *Cell) {
		if n, ok := get(v); ok {
			*c = Cell{Kind: IntCell, Bits: uint64(n)}
		}
	}}
}

func mustBeInt(name string, t Type) {
	if t.cel != cel.IntType {
		panic(fmt.Sprintf("engine: field %s is bound to an integer, and of type %s", name, t))
	}
}

// DoubleIf is a floating-point field that is unset if get returns false.
func DoubleIf[T any](name, doc string, get func(T) (float64, bool)) FieldFrom[T] {
	return FieldFrom[T]{Field{name, Double, doc}, func(v T, c *Cell) {
		if d, ok := get(v); ok {
			*c = Cell{Kind: DoubleCell, Bits: math.Float64bits(d)}
		}
	}}
}

// BoolFrom is a boolean field.
func BoolFrom[T any](name, doc string, get func(T) bool) FieldFrom[T] {
	return BoolIf(name, doc, func(v T) (bool, bool) { return get(v), true })
}

// BoolIf is a boolean field that is unset if get returns false.
func BoolIf[T any](name, doc string, get func(T) (value, ok bool)) FieldFrom[T] {
	return FieldFrom[T]{Field{name, Bool, doc}, func(v T, c *Cell) {
		if is, ok := get(v); ok {
			*c = Cell{Kind: BoolCell, Bits: BitsOf(is)}
		}
	}}
}

// TextFrom is a string field.
func TextFrom[T any, S ~string](name, doc string, get func(T) S) FieldFrom[T] {
	return TextIf(name, doc, func(v T) (S, bool) { return get(v), true })
}

// TextIf is a string field that is unset if get returns false.
func TextIf[T any, S ~string](name, doc string, get func(T) (S, bool)) FieldFrom[T] {
	return FieldFrom[T]{Field{name, String, doc}, func(v T, c *Cell) {
		if s, ok := get(v); ok {
			*c = Cell{Kind: RefCell, Ref: types.String(s)}
		}
	}}
}

// TextsFrom is a list of strings; nil is unset.
func TextsFrom[T any](name, doc string, get func(T) []string) FieldFrom[T] {
	return FieldFrom[T]{Field{name, ListOf(String), doc}, func(v T, c *Cell) {
		if list := get(v); list != nil {
			*c = Cell{Kind: RefCell, Ref: ListFrom(list)}
		}
	}}
}

// RecordFrom is a nested record; nil is unset.
func RecordFrom[T any](name string, of *Schema, doc string, get func(T) *Record) FieldFrom[T] {
	return FieldFrom[T]{Field{name, RecordOf(of), doc}, func(v T, c *Cell) {
		if r := get(v); r != nil {
			*c = Cell{Kind: RefCell, Ref: r}
		}
	}}
}

// RecordsFrom is a list of records; nil is empty.
func RecordsFrom[T any](name string, of *Schema, doc string, get func(T) []*Record) FieldFrom[T] {
	return FieldFrom[T]{Field{name, ListOf(RecordOf(of)), doc}, func(v T, c *Cell) {
		*c = Cell{Kind: RefCell, Ref: Records(get(v))}
	}}
}

// OpaqueFrom is a value of a host type; nil is unset.
func OpaqueFrom[T any](name string, t Type, doc string, get func(T) ref.Val) FieldFrom[T] {
	return FieldFrom[T]{Field{name, t, doc}, func(v T, c *Cell) {
		if value := get(v); value != nil {
			*c = Cell{Kind: RefCell, Ref: value}
		}
	}}
}

// Text makes a string value for Set.
func Text(s string) ref.Val { return types.String(s) }

// Number makes an integer value for Set.
func Number(n int64) ref.Val { return types.Int(n) }

var noRecords = NewList(nil)

// Records makes a list value for Set.
func Records(list []*Record) *List {
	if len(list) == 0 {
		return noRecords
	}
	vals := make([]ref.Val, len(list))
	for i, r := range list {
		vals[i] = r
	}
	return NewList(vals)
}
