package ruletest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// factReader decodes the facts of a row to the types that its point declares.
type factReader struct {
	*document.Decoder
	reg *registry.Registry
	row source.Scalar // position of the row
}

// facts reads variables and scopes. Records that are not given are empty, as hosts pass them; other
// variables are unset.
func (r *factReader) facts(p *registry.Point, given *yaml.Node) *registry.Facts {
	f := p.NewFacts()
	if given != nil {
		r.Pairs(given, func(key source.Scalar, v *yaml.Node) {
			if i, ok := p.VarIndex()[key.Value]; ok && p.Vars[i].OfScope() == nil {
				if val := r.value(v, p.Vars[i].Type); val != nil {
					f.Set(key.Value, val)
				}
				return
			}
			if scope := p.Scope(key.Value); scope != nil {
				r.items(f, scope, v)
				return
			}
			r.unknown(key, p.Name+" has no fact or scope", append(varNames(p.GivenVars()), slices.Sorted(maps.Keys(p.ScopeIndex()))...))
		})
	}
	for i, v := range p.Vars {
		if f.Value(i) == nil && v.Type.IsRecord() && v.OfScope() == nil {
			f.Set(v.Name, empty(v.Type.Schema()))
		}
	}
	return f
}

// items reads the items of a scope by label, in the order written.
func (r *factReader) items(f *registry.Facts, scope *registry.Scope, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.Problem(n, fmt.Sprintf("expected the items of scope %s: a mapping from label to facts", scope.Name))
		return
	}
	r.Pairs(n, func(label source.Scalar, v *yaml.Node) {
		if scope.Full(f.Items(scope.Name)) {
			r.Problems.At(label, r.Subject, fmt.Sprintf("scope %s has one item at most", scope.Name))
			return
		}
		item := f.AddItem(scope.Name, label.Value)
		if v.Kind != yaml.MappingNode {
			r.Problem(v, fmt.Sprintf("expected the facts of %s %s", scope.Name, label.Value))
			return
		}
		r.Pairs(v, func(key source.Scalar, v *yaml.Node) {
			i := scope.Index(key.Value)
			if i < 0 || !scope.Given(i) {
				r.unknown(key, fmt.Sprintf("scope %s has no fact to give called", scope.Name), varNames(scope.GivenVars()))
				return
			}
			if val := r.value(v, scope.Vars[i].Type); val != nil {
				item.Set(key.Value, val)
			}
		})
		for i, v := range scope.Vars {
			if item.Value(i) == nil && v.Type.IsRecord() {
				item.Set(v.Name, empty(v.Type.Schema()))
			}
		}
	})
}

// value reads a fact; nil means unset (null), or that problems were recorded.
func (r *factReader) value(n *yaml.Node, t lang.Type) ref.Val {
	if isNull(n) {
		return nil
	}
	elem, isList := t.Elem()
	switch {
	case t.IsRecord():
		return r.record(n, t.Schema())
	case isList:
		return r.list(n, elem)
	case t == lang.Texts:
		return r.textsByKey(n)
	case t.IsOpaque():
		return r.opaque(n, t)
	}
	text := r.Scalar(n)
	if text.Pos.Line == 0 {
		return nil
	}
	v, err := r.reg.ParseScalar(t, text.Value)
	if err != nil {
		r.Problem(n, err.Error())
		return nil
	}
	return v
}

func (r *factReader) record(n *yaml.Node, s *lang.Schema) ref.Val {
	if n.Kind != yaml.MappingNode {
		r.Problem(n, "expected a mapping with fields "+strings.Join(s.FieldNames(), ", "))
		return nil
	}
	out := empty(s)
	r.Pairs(n, func(key source.Scalar, v *yaml.Node) {
		i, ok := s.Index()[key.Value]
		if !ok {
			r.unknown(key, s.Name()+" has no field", s.FieldNames())
			return
		}
		if val := r.value(v, s.Fields()[i].Type); val != nil {
			out.Put(key.Value, val)
		}
	})
	return out
}

// empty is a record of which nothing is given: its fields are unset, but for texts by key, which hosts always pass.
func empty(s *lang.Schema) *lang.Record {
	out := s.New()
	for _, f := range s.Fields() {
		if f.Type == lang.Texts {
			out.Put(f.Name, types.NewStringStringMap(types.DefaultTypeAdapter, nil))
		}
	}
	return out
}

func (r *factReader) textsByKey(n *yaml.Node) ref.Val {
	if n.Kind != yaml.MappingNode {
		r.Problem(n, "expected a mapping of keys to texts")
		return nil
	}
	all := map[string]string{}
	r.Pairs(n, func(key source.Scalar, v *yaml.Node) { all[key.Value] = r.Scalar(v).Value })
	return types.NewStringStringMap(types.DefaultTypeAdapter, all)
}

func (r *factReader) list(n *yaml.Node, elem lang.Type) ref.Val {
	if n.Kind != yaml.SequenceNode {
		r.Problem(n, "expected a list of "+elem.String())
		return nil
	}
	vals := make([]ref.Val, 0, len(n.Content))
	for _, entry := range n.Content {
		v := r.value(entry, elem)
		if v == nil {
			if isNull(entry) {
				r.Problem(entry, "an entry of a list cannot be unset")
			}
			continue
		}
		vals = append(vals, v)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, vals)
}

// opaque hands a mapping to the host's reader.
func (r *factReader) opaque(n *yaml.Node, t lang.Type) ref.Val {
	read := r.reg.Readers()[t.CELType().TypeName()]
	if read == nil {
		r.Problem(n, fmt.Sprintf("a value of type %s cannot be written in a table", t))
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.Problem(n, fmt.Sprintf("expected a mapping that describes a %s", t))
		return nil
	}
	var pairs []registry.Pair
	r.Pairs(n, func(key source.Scalar, v *yaml.Node) {
		pairs = append(pairs, registry.Pair{Key: key.Value, Value: r.Scalar(v).Value})
	})
	v, err := read(pairs, r.reg.Units()[t.Unit()])
	if err != nil {
		r.Problem(n, err.Error())
		return nil
	}
	return v
}

// judged reads the objects of a validation point as JSON values, and its further facts.
func (r *factReader) judged(p *registry.Point, given *yaml.Node) engine.Judged {
	out := engine.Judged{Facts: p.NewFacts()}
	if given != nil {
		r.Pairs(given, func(key source.Scalar, v *yaml.Node) {
			if i, isFact := p.VarIndex()[key.Value]; isFact {
				if val := r.value(v, p.Vars[i].Type); val != nil {
					out.Facts.Set(key.Value, val)
				}
				return
			}
			value, isMap := r.plain(v).(map[string]any)
			switch {
			case key.Value != "object" && key.Value != "oldObject":
				r.unknown(key, p.Name+" is given no", append([]string{"object", "oldObject"}, varNames(p.Vars)...))
			case !isMap:
				r.Problem(v, "expected an object: a mapping")
			case key.Value == "object":
				out.Object = value
			default:
				out.Old = value
			}
		})
	}
	if out.Object == nil && len(r.Problems.List) == 0 {
		r.Problems.At(r.row, r.Subject, "given.object is required: it is what the rules judge")
	}
	return out
}

// plain decodes YAML to JSON values, with integers as int64.
func (r *factReader) plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		r.Pairs(n, func(key source.Scalar, v *yaml.Node) { out[key.Value] = r.plain(v) })
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			out = append(out, r.plain(item))
		}
		return out
	}
	var v any
	if err := n.Decode(&v); err != nil {
		r.Problem(n, err.Error())
		return nil
	}
	switch v := v.(type) {
	case int:
		return int64(v)
	case int64, bool, nil:
		return v
	case uint64:
		return float64(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.Problem(n, "an object holds finite numbers only")
			return nil
		}
		return v
	}
	return n.Value // strings, and what YAML parses as a date
}

func (r *factReader) unknown(key source.Scalar, what string, known []string) {
	r.Problems.At(key, r.Subject, fmt.Sprintf("%s %q; known: %s", what, key.Value, strings.Join(known, ", ")))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func varNames(vars []registry.Var) []string {
	return namesOf(vars, func(v registry.Var) string { return v.Name })
}
