package schema

import (
	"maps"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/celvpa/celvpa/engine/lang"
)

// Compiled rules read objects as records, which are made once for each review. CEL reads values of
// API servers, which are made at each access.

// Compiled implements registry.ObjectTypes.
func (o *Objects) Compiled(at string) (map[string]int, map[string]*lang.Schema, error) {
	self, object, err := o.named(at)
	if err != nil {
		return nil, nil, err
	}
	below := o.shape
	for _, name := range segments(at) {
		if name == "[*]" {
			below = below.items
		} else {
			below = below.field(name)
		}
	}
	shapes := map[string]*lang.Schema{}
	below.name(self, shapes)
	o.shape.name(object, shapes)
	return variables, shapes, nil
}

// name collects the record types of a value by the names that rules know them by.
func (s *shape) name(t *apiservercel.DeclType, to map[string]*lang.Schema) {
	switch {
	case s == nil || t == nil:
	case t.IsObject():
		if s.record != nil {
			to[t.TypeName()] = s.record
		}
		for name, field := range t.Fields {
			if raw, ok := apiservercel.Unescape(name); ok {
				s.field(raw).name(field.Type, to)
			}
		}
	case t.IsList():
		s.items.name(t.ElemType, to)
	case t.IsMap() && s.additional != nil:
		s.values().name(t.ElemType, to)
	}
}

// prepare gives a shape with fields its record type.
func (s *shape) prepare() {
	if s.properties == nil || s.IsXEmbeddedResource() {
		return
	}
	s.places = map[string]int{}
	var fields []lang.Field
	for _, name := range slices.Sorted(maps.Keys(s.properties)) {
		if escaped, ok := apiservercel.Escape(name); ok && s.field(name).isReadable() {
			s.places[name] = len(fields)
			fields = append(fields, lang.Field{Name: escaped})
		}
	}
	s.record = lang.NewSchema("object", fields...).Strict()
}

// isReadable reports whether compiled rules can read values of the shape.
func (s *shape) isReadable() bool {
	switch {
	case s.IsXIntOrString():
		return true
	case s.Type() == "object":
		return s.record != nil || s.values() != nil && s.values().isReadable()
	case s.Type() == "array":
		return s.items != nil && s.items.isReadable()
	case s.Type() == "string":
		return !slices.Contains([]string{"duration", "date", "date-time", "byte"}, s.Format())
	}
	return slices.Contains([]string{"number", "integer", "boolean"}, s.Type())
}

// value converts a value for compiled rules. fits is false if it is not of the shape's type: CEL
// alone says what becomes of rules that read such a value.
func (s *shape) value(v any) (out ref.Val, fits bool) {
	switch v := v.(type) {
	case string:
		return types.String(v), s.Type() == "string" || s.IsXIntOrString()
	case int64:
		if s.Type() == "number" {
			return types.Double(v), true
		}
		return types.Int(v), s.Type() == "integer" || s.IsXIntOrString()
	case float64:
		return types.Double(v), s.Type() == "number"
	case bool:
		return types.Bool(v), s.Type() == "boolean"
	case []any:
		return s.listOf(v)
	case map[string]any:
		if s.record == nil {
			return s.mapOf(v)
		}
		return s.recordOf(v)
	}
	return nil, false
}

func (s *shape) recordOf(v map[string]any) (out ref.Val, fits bool) {
	record := s.record.New()
	for name, i := range s.places {
		field := v[name]
		if field == nil {
			continue
		}
		value, fits := s.field(name).value(field)
		if !fits {
			return nil, false
		}
		record.Cells()[i] = lang.CellOf(value)
	}
	return record, true
}

func (s *shape) listOf(v []any) (out ref.Val, fits bool) {
	if s.Type() != "array" || s.items == nil {
		return nil, false
	}
	values := make([]ref.Val, len(v))
	for i, item := range v {
		if values[i], fits = s.items.value(item); !fits {
			return nil, false
		}
	}
	return lang.NewList(values), true
}

func (s *shape) mapOf(v map[string]any) (out ref.Val, fits bool) {
	of := s.values()
	if s.Type() != "object" || of == nil {
		return nil, false
	}
	values := make(map[ref.Val]ref.Val, len(v))
	for key, item := range v {
		if values[types.String(key)], fits = of.value(item); !fits {
			return nil, false
		}
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, values), true
}
