package lang

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Field is one named member of a record.
type Field struct {
	Name string
	Type Type
	Doc  string
}

// Unset is the failure of a rule that reads the field of this name while it is unset.
type Unset string

// Error tells what to do.
func (u Unset) Error() string {
	return string(u) + " is not set; guard it with has(), or give a default: .?" + string(u) + ".orValue(…)"
}

// Schema is the shape shared by all records of one kind. Build it once, at start-up.
type Schema struct {
	name   string
	cel    *cel.Type
	fields []Field
	index  map[string]int
	empty  *Record // what an unset field of this shape reads as
}

// NewSchema declares a record type. It panics on a repeated field name: schemas are part of the program.
func NewSchema(name string, fields ...Field) *Schema {
	s := &Schema{name: name, cel: types.NewObjectType(name, traits.ContainerType), fields: fields, index: map[string]int{}}
	for i, f := range fields {
		if _, twice := s.index[f.Name]; twice {
			panic(fmt.Sprintf("engine: schema %s has field %s twice", name, f.Name))
		}
		s.index[f.Name] = i
	}
	s.empty = s.New()
	return s
}

// WithNested is the shape and those of the records in its fields, by name.
func (s *Schema) WithNested() map[string]*Schema {
	out := map[string]*Schema{s.name: s}
	for _, f := range s.fields {
		if f.Type.IsRecord() {
			out[f.Type.schema.name] = f.Type.schema
		}
	}
	return out
}

// New returns a record with every field unset.
func (s *Schema) New() *Record {
	if n := len(s.fields); n <= fewCells {
		r := &smallRecord{}
		r.schema, r.cells = s, r.held[:n:n]
		return &r.Record
	}
	return &Record{schema: s, cells: make([]Cell, len(s.fields))}
}

// Make is New for a record that is part of something else.
func (s *Schema) Make() Record { return Record{schema: s, cells: make([]Cell, len(s.fields))} }

// smallRecord is a record in one piece of memory: most have few fields.
type smallRecord struct {
	Record
	held [fewCells]Cell
}

const fewCells = 2

// Fields lists the declared fields in order.
func (s *Schema) Fields() []Field { return s.fields }

// Record is a structured fact. Reading an unset scalar in a rule is a run-time error that has() avoids;
// an unset nested record reads as one without fields.
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

// SetInt, SetDouble, SetBool, SetString, SetStrings, SetRecord and SetOpaque give a field its value. They panic when the schema has no such field, which is a fault of the program, not of its input.
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

// SetString sets a text field; see SetInt.
func (r *Record) SetString(field, v string) *Record { return r.Put(field, types.String(v)) }

// SetStrings sets a list of texts; see SetInt.
func (r *Record) SetStrings(field string, v []string) *Record {
	return r.Put(field, types.NewStringList(types.DefaultTypeAdapter, v))
}

// SetRecord sets a nested record; see SetInt.
func (r *Record) SetRecord(field string, v *Record) *Record { return r.Put(field, v) }

// SetOpaque sets a value of a host type; see SetInt.
func (r *Record) SetOpaque(field string, v ref.Val) *Record { return r.Put(field, v) }

// Put sets a field to a CEL value; nil unsets it.
func (r *Record) Put(field string, v ref.Val) *Record {
	r.cells[r.slot(field)] = CellOf(v)
	return r
}

// At reads the i-th field as a CEL value; nil when it is unset.
func (r *Record) At(i int) ref.Val { return r.cells[i].Val() }

// Int reads an integer field; ok is false when it is unset.
func (r *Record) Int(field string) (v int64, ok bool) {
	c := &r.cells[r.slot(field)]
	if c.Kind != IntCell {
		return 0, false
	}
	return int64(c.Bits), true
}

// Double reads a floating-point field, 0 when unset.
func (r *Record) Double(field string) float64 {
	c := &r.cells[r.slot(field)]
	if c.Kind != DoubleCell {
		return 0
	}
	return math.Float64frombits(c.Bits)
}

// Bool reads a boolean field, false when unset.
func (r *Record) Bool(field string) bool {
	c := &r.cells[r.slot(field)]
	return c.Kind == BoolCell && c.Bits != 0
}

// Schema is the record's shape.
func (r *Record) Schema() *Schema { return r.schema }

// Field reads a field as a CEL value; nil when it is unset.
func (r *Record) Field(field string) ref.Val { return r.At(r.slot(field)) }

// Text reads a text field, empty when unset.
func (r *Record) Text(field string) string {
	text, _ := Unbox[string](r.Field(field))
	return text
}

// Copy is a record of its own with the same in it.
func (r *Record) Copy() *Record {
	out := &Record{schema: r.schema, cells: slices.Clone(r.cells)}
	for i := range out.cells {
		if nested, ok := out.cells[i].Ref.(*Record); ok {
			out.cells[i].Ref = nested.Copy()
		}
	}
	return out
}

// Same reports whether two records hold the same.
func (r *Record) Same(o *Record) bool { return r.Equal(o) == types.True }

// ConvertToNative implements ref.Val; records do not leave the engine that way.
func (r *Record) ConvertToNative(t reflect.Type) (any, error) {
	if t == reflect.TypeOf(r) {
		return r, nil
	}
	return nil, fmt.Errorf("%s cannot be converted to %v", r.schema.name, t)
}

// ConvertToType implements ref.Val.
func (r *Record) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return r.schema.cel
	}
	return types.NewErr("type conversion error from '%s' to '%s'", r.schema.name, t.TypeName())
}

// Equal implements ref.Val: two records are equal when all their fields are.
func (r *Record) Equal(other ref.Val) ref.Val {
	o, ok := other.(*Record)
	if !ok || o.schema != r.schema {
		return types.False
	}
	for i := range r.cells {
		if !r.cells[i].Equal(&o.cells[i]) {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (r *Record) Type() ref.Type { return r.schema.cel }

// Value implements ref.Val.
func (r *Record) Value() any { return r }

// TypeProvider teaches CEL the registry's record types.
type TypeProvider struct {
	types.Provider
	Schemas map[string]*Schema
}

func (p *TypeProvider) FindStructType(name string) (*types.Type, bool) {
	if s, ok := p.Schemas[name]; ok {
		return types.NewTypeTypeWithParam(s.cel), true
	}
	return p.Provider.FindStructType(name)
}

func (p *TypeProvider) FindStructFieldNames(name string) ([]string, bool) {
	s, ok := p.Schemas[name]
	if !ok {
		return p.Provider.FindStructFieldNames(name)
	}
	out := make([]string, 0, len(s.fields))
	for _, f := range s.fields {
		out = append(out, f.Name)
	}
	return out, true
}

func (p *TypeProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	s, ok := p.Schemas[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	i, ok := s.index[field]
	if !ok {
		return nil, false
	}
	f := &s.fields[i]
	return &types.FieldType{
		Type: f.Type.cel,
		IsSet: func(target any) bool {
			r, ok := target.(*Record)
			return ok && r.cells[i].Kind != UnsetCell
		},
		GetFrom: func(target any) (any, error) {
			r, ok := target.(*Record)
			if !ok {
				return nil, fmt.Errorf("%s cannot be read from %T", field, target)
			}
			return r.read(i)
		},
	}, true
}

func (s *Schema) FieldNames() []string {
	out := make([]string, len(s.fields))
	for i, f := range s.fields {
		out[i] = f.Name
	}
	return out
}

// Contains implements traits.Container: it reports whether a field is set.
func (r *Record) Contains(field ref.Val) ref.Val { return r.IsSet(field) }

// IsSet implements traits.FieldTester.
func (r *Record) IsSet(field ref.Val) ref.Val {
	i, err := r.find(field)
	if err != nil {
		return err
	}
	return types.Bool(r.cells[i].Kind != UnsetCell)
}

// Get implements traits.Indexer. It reads a field as a rule does: see Record.
func (r *Record) Get(field ref.Val) ref.Val {
	i, err := r.find(field)
	if err != nil {
		return err
	}
	v, failed := r.read(i)
	if failed != nil {
		return types.WrapErr(failed)
	}
	return v
}

// read gives what a rule reads in the i-th field.
func (r *Record) read(i int) (ref.Val, error) {
	f := &r.schema.fields[i]
	switch v := r.At(i); {
	case v != nil:
		return v, nil
	case f.Type.IsRecord():
		return f.Type.schema.empty, nil
	}
	return nil, Unset(f.Name)
}

func (r *Record) find(field ref.Val) (i int, err *types.Err) {
	name, _ := field.(types.String)
	i, ok := r.schema.index[string(name)]
	if !ok {
		return 0, types.NewErr("no such field '%v'; %s has %s", field, r.schema.name, strings.Join(r.schema.FieldNames(), ", ")).(*types.Err)
	}
	return i, nil
}

// EachValue visits the values of a record and of those in it, by name; nil for what is unset.
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

// CELType is the record type as CEL's checker has it.
func (s *Schema) CELType() *cel.Type { return s.cel }

// Name is what the record type is called.
func (s *Schema) Name() string { return s.name }

// Index finds the fields by name. It is shared and must not be changed.
func (s *Schema) Index() map[string]int { return s.index }

// Empty is what an unset field of this shape reads as. It is shared and must stay empty.
func (s *Schema) Empty() *Record { return s.empty }

// Cells are the fields in the order in which the schema declares them, for code that was compiled to read and write them.
func (r *Record) Cells() []Cell { return r.cells }
