package lang

import (
	"fmt"
	"math"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Unset is the failure of reading the unset field of this name.
type Unset string

// Error says how to guard the read.
func (u Unset) Error() string {
	return string(u) + " is not set; guard it with has(), or give a default: .?" + string(u) + ".orValue(…)"
}

// smallRecord allocates a record and its cells at once: most records have few fields.
type smallRecord struct {
	Record
	held [fewCells]Cell
}

const fewCells = 2

// Record is a structured fact. In a rule, reading an unset scalar fails unless guarded by has(); an
// unset nested record reads as empty.
type Record struct {
	schema *Schema
	cells  []Cell
}

func (r *Record) slot(field string) int {
	i, ok := r.schema.index[field]
	if !ok {
		panic(fmt.Sprintf("engine: record %s has no field %s", r.schema.name, field))
	}
	return i
}

// SetInt sets an integer field. Like the other setters, it panics on an undeclared field.
func (r *Record) SetInt(field string, v int64) *Record {
	r.cells[r.slot(field)] = Cell{Kind: IntCell, Bits: uint64(v)}
	return r
}

// SetDouble sets a floating-point field; see SetInt.
func (r *Record) SetDouble(field string, v float64) *Record {
	r.cells[r.slot(field)] = Cell{Kind: DoubleCell, Bits: math.Float64bits(v)}
	return r
}

// SetBool sets a boolean field; see SetInt.
func (r *Record) SetBool(field string, v bool) *Record {
	r.cells[r.slot(field)] = Cell{Kind: BoolCell, Bits: BitsOf(v)}
	return r
}

// SetString sets a string field; see SetInt.
func (r *Record) SetString(field, v string) *Record { return r.Put(field, types.String(v)) }

// SetRecord sets a nested record; see SetInt.
func (r *Record) SetRecord(field string, v *Record) *Record { return r.Put(field, v) }

// SetOpaque sets a value of a host type; see SetInt.
func (r *Record) SetOpaque(field string, v ref.Val) *Record { return r.Put(field, v) }

// Put sets a field to a CEL value; nil unsets it.
func (r *Record) Put(field string, v ref.Val) *Record {
	r.cells[r.slot(field)] = CellOf(v)
	return r
}

// At reads the i-th field as a CEL value; nil if unset.
func (r *Record) At(i int) ref.Val { return r.cells[i].Val() }

// Int reads an integer field; ok is false if unset.
func (r *Record) Int(field string) (v int64, ok bool) {
	c := &r.cells[r.slot(field)]
	if c.Kind != IntCell {
		return 0, false
	}
	return int64(c.Bits), true
}

// Double reads a floating-point field; 0 if unset.
func (r *Record) Double(field string) float64 {
	c := &r.cells[r.slot(field)]
	if c.Kind != DoubleCell {
		return 0
	}
	return math.Float64frombits(c.Bits)
}

// Bool reads a boolean field; false if unset.
func (r *Record) Bool(field string) bool {
	c := &r.cells[r.slot(field)]
	return c.Kind == BoolCell && c.Bits != 0
}

// Schema is the record's shape.
func (r *Record) Schema() *Schema { return r.schema }

// Field reads a field as a CEL value; nil if unset.
func (r *Record) Field(field string) ref.Val { return r.At(r.slot(field)) }

// Text reads a string field; empty if unset.
func (r *Record) Text(field string) string {
	text, _ := Unbox[string](r.Field(field))
	return text
}

// Copy returns a copy, including nested records.
func (r *Record) Copy() *Record {
	out := &Record{schema: r.schema, cells: slices.Clone(r.cells)}
	for i := range out.cells {
		if nested, ok := out.cells[i].Ref.(*Record); ok {
			out.cells[i].Ref = nested.Copy()
		}
	}
	return out
}

// Same reports whether two records are equal.
func (r *Record) Same(o *Record) bool { return r.Equal(o) == types.True }

// EachValue visits the values of a record and its nested records, by name; nil if unset.
func (r *Record) EachValue(prefix string, visit func(name string, v any)) {
	if r == nil {
		return
	}
	for i, f := range r.schema.fields {
		v := r.At(i)
		if inner, ok := v.(*Record); ok {
			inner.EachValue(prefix+f.Name+".", visit)
			continue
		}
		visit(prefix+f.Name, v)
	}
}

// Cells are the fields in the schema's order, for compiled code.
func (r *Record) Cells() []Cell { return r.cells }
