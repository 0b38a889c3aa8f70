package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"
)

// factReader turns what a row gives into facts of the types that its point declares.
type factReader struct {
	*decoder
	reg *Registry
	row Scalar // where the row stands
}

// facts reads variables and scopes. A record that is not given has nothing set, as hosts hand it over; other variables
// that are not given are unset.
func (r *factReader) facts(p *Point, given *yaml.Node) *Facts {
	f := p.NewFacts()
	if given != nil {
		r.pairs(given, func(key Scalar, v *yaml.Node) {
			if i, ok := p.varIndex[key.Value]; ok && p.Vars[i].scope == nil {
				if val := r.value(v, p.Vars[i].Type); val != nil {
					f.Set(key.Value, val)
				}
				return
			}
			if scope := p.scope(key.Value); scope != nil {
				r.items(f, scope, v)
				return
			}
			r.unknown(key, p.Name+" has no fact or scope", append(varNames(p.givenVars()), slices.Sorted(maps.Keys(p.scopeIndex))...))
		})
	}
	for i, v := range p.Vars {
		if f.get(i) == nil && v.Type.isRecord() && v.scope == nil {
			f.Set(v.Name, v.Type.schema.New())
		}
	}
	return f
}

// items reads the items of a scope by label, in the order written.
func (r *factReader) items(f *Facts, scope *Scope, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.problem(n, fmt.Sprintf("expected the items of scope %s: a mapping from label to facts", scope.Name))
		return
	}
	r.pairs(n, func(label Scalar, v *yaml.Node) {
		if scope.full(f.Items(scope.Name)) {
			r.ps.at(label, r.subject, fmt.Sprintf("scope %s has one item at most", scope.Name))
			return
		}
		item := f.AddItem(scope.Name, label.Value)
		if v.Kind != yaml.MappingNode {
			r.problem(v, fmt.Sprintf("expected the facts of %s %s", scope.Name, label.Value))
			return
		}
		r.pairs(v, func(key Scalar, v *yaml.Node) {
			i := scope.index(key.Value)
			if i < 0 || !scope.given(i) {
				r.unknown(key, fmt.Sprintf("scope %s has no fact to give called", scope.Name), varNames(scope.givenVars()))
				return
			}
			if val := r.value(v, scope.Vars[i].Type); val != nil {
				item.Set(key.Value, val)
			}
		})
		for i, v := range scope.Vars {
			if item.get(i) == nil && v.Type.isRecord() {
				item.Set(v.Name, v.Type.schema.New())
			}
		}
	})
}

// value reads a fact of a type; nil stands for unset (null), or for problems recorded.
func (r *factReader) value(n *yaml.Node, t Type) ref.Val {
	if isNull(n) {
		return nil
	}
	elem, isList := t.elem()
	switch {
	case t.isRecord():
		return r.record(n, t.schema)
	case isList:
		return r.list(n, elem)
	case t.IsOpaque():
		return r.opaque(n, t)
	}
	text := r.scalar(n)
	if text.Pos.Line == 0 {
		return nil
	}
	v, err := r.reg.parseScalar(t, text.Value)
	if err != nil {
		r.problem(n, err.Error())
		return nil
	}
	return v
}

func (r *factReader) record(n *yaml.Node, s *Schema) ref.Val {
	if n.Kind != yaml.MappingNode {
		r.problem(n, "expected a mapping with fields "+strings.Join(s.fieldNames(), ", "))
		return nil
	}
	out := s.New()
	r.pairs(n, func(key Scalar, v *yaml.Node) {
		i, ok := s.index[key.Value]
		if !ok {
			r.unknown(key, s.name+" has no field", s.fieldNames())
			return
		}
		if val := r.value(v, s.fields[i].Type); val != nil {
			out.put(key.Value, val)
		}
	})
	return out
}

func (r *factReader) list(n *yaml.Node, elem Type) ref.Val {
	if n.Kind != yaml.SequenceNode {
		r.problem(n, "expected a list of "+elem.String())
		return nil
	}
	vals := make([]ref.Val, 0, len(n.Content))
	for _, entry := range n.Content {
		v := r.value(entry, elem)
		if v == nil {
			if isNull(entry) {
				r.problem(entry, "an entry of a list cannot be unset")
			}
			continue
		}
		vals = append(vals, v)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, vals)
}

// opaque hands a mapping to the host's reader.
func (r *factReader) opaque(n *yaml.Node, t Type) ref.Val {
	read := r.reg.readers[t.cel.TypeName()]
	if read == nil {
		r.problem(n, fmt.Sprintf("a value of type %s cannot be written in a table", t))
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.problem(n, fmt.Sprintf("expected a mapping that describes a %s", t))
		return nil
	}
	var pairs []Pair
	r.pairs(n, func(key Scalar, v *yaml.Node) {
		pairs = append(pairs, Pair{Key: key.Value, Value: r.scalar(v).Value})
	})
	v, err := read(pairs, r.reg.units[t.unit])
	if err != nil {
		r.problem(n, err.Error())
		return nil
	}
	return v
}

// judged reads the objects of a validation point as JSON would hold them, and its further facts.
func (r *factReader) judged(p *Point, given *yaml.Node) Judged {
	out := Judged{Facts: p.NewFacts()}
	if given != nil {
		r.pairs(given, func(key Scalar, v *yaml.Node) {
			if i, isFact := p.varIndex[key.Value]; isFact {
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
				r.problem(v, "expected an object: a mapping")
			case key.Value == "object":
				out.Object = value
			default:
				out.Old = value
			}
		})
	}
	if out.Object == nil && len(r.ps.list) == 0 {
		r.ps.at(r.row, r.subject, "given.object is required: it is what the rules judge")
	}
	return out
}

// plain reads any YAML as JSON would hold it; whole numbers are int64.
func (r *factReader) plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		r.pairs(n, func(key Scalar, v *yaml.Node) { out[key.Value] = r.plain(v) })
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
		r.problem(n, err.Error())
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
			r.problem(n, "an object holds finite numbers only")
			return nil
		}
		return v
	}
	return n.Value // texts, and what YAML takes for a date
}

func (r *factReader) unknown(key Scalar, what string, known []string) {
	r.ps.at(key, r.subject, fmt.Sprintf("%s %q; known: %s", what, key.Value, strings.Join(known, ", ")))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func varNames(vars []Var) []string {
	return namesOf(vars, func(v Var) string { return v.Name })
}
