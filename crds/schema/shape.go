package schema

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiserver/pkg/cel/common"
)

// shape is an immutable schema node for conversion to CEL values. The API server's equivalent
// rebuilds all children on every access, which dominates the cost of a rule.
type shape struct {
	model.Structural
	properties map[string]common.Schema
	items      *shape
	additional *additionalShape
}

type additionalShape struct {
	model.StructuralOrBool
	schema common.Schema
}

func newShape(s *structural.Structural) *shape {
	out := &shape{Structural: model.Structural{Structural: s}}
	if s.Properties != nil {
		out.properties = make(map[string]common.Schema, len(s.Properties))
		for name, field := range s.Properties {
			out.properties[name] = newShape(&field)
		}
	}
	if s.Items != nil {
		out.items = newShape(s.Items)
	}
	if a := s.AdditionalProperties; a != nil {
		out.additional = &additionalShape{StructuralOrBool: model.StructuralOrBool{StructuralOrBool: a}}
		if a.Structural != nil {
			out.additional.schema = newShape(a.Structural)
		}
	}
	return out
}

// Properties implements common.Schema.
func (s *shape) Properties() map[string]common.Schema { return s.properties }

// Items implements common.Schema.
func (s *shape) Items() common.Schema {
	if s.items == nil {
		return nil
	}
	return s.items
}

// AdditionalProperties implements common.Schema.
func (s *shape) AdditionalProperties() common.SchemaOrBool {
	if s.additional == nil {
		return nil
	}
	return s.additional
}

// Schema implements common.SchemaOrBool.
func (a *additionalShape) Schema() common.Schema { return a.schema }

func (s *shape) field(name string) *shape {
	if s == nil {
		return nil
	}
	field, _ := s.properties[name].(*shape)
	return field
}

// below is the shape of a field or, in a map, of an entry; nil if there is none.
func (s *shape) below(name string) *shape {
	if field := s.field(name); field != nil {
		return field
	}
	return s.values()
}

// values is the shape of a map's values; nil if there are none or they may be anything.
func (s *shape) values() *shape {
	if s.additional == nil {
		return nil
	}
	values, _ := s.additional.schema.(*shape)
	return values
}
