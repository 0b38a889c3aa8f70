package lang

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// ConvertToNative implements ref.Val; records have no other native form.
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

// Get implements traits.Indexer. It reads a field as a rule does; see Record.
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

// read returns what a rule reads in the i-th field.
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

// TypeProvider adds the registry's record types to CEL.
type TypeProvider struct {
	types.Provider
	Schemas map[string]*Schema
}

// FindStructType implements types.Provider.
func (p *TypeProvider) FindStructType(name string) (*types.Type, bool) {
	if s, ok := p.Schemas[name]; ok {
		return types.NewTypeTypeWithParam(s.cel), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
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

// FindStructFieldType implements types.Provider.
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
