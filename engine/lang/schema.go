package lang

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
)

// Field is one named member of a record.
type Field struct {
	Name string
	Type Type
	Doc  string
}

// Schema is the shape of a record type. Build it once, at start-up.
type Schema struct {
	name   string
	cel    *cel.Type
	fields []Field
	index  map[string]int
	empty  *Record // what an unset field of this shape reads as
}

// NewSchema declares a record type. It panics on a duplicate field, a programming error.
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

// WithNested returns the schema and those of its record fields, by name.
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

// Make is New for a record embedded in another value.
func (s *Schema) Make() Record { return Record{schema: s, cells: make([]Cell, len(s.fields))} }

// Fields lists the declared fields in order.
func (s *Schema) Fields() []Field { return s.fields }

// FieldNames lists the names of the fields in order.
func (s *Schema) FieldNames() []string {
	out := make([]string, len(s.fields))
	for i, f := range s.fields {
		out[i] = f.Name
	}
	return out
}

// CELType is the record type in CEL's type system.
func (s *Schema) CELType() *cel.Type { return s.cel }

// Name is the name of the record type.
func (s *Schema) Name() string { return s.name }

// Index maps field names to indexes. Do not modify it.
func (s *Schema) Index() map[string]int { return s.index }

// Empty is the shared value of an unset field of this type. Do not modify it: rules that write to it get a copy.
func (s *Schema) Empty() *Record { return s.empty }
