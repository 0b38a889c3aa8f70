package document

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine/source"
)

// Subject is the object that overlays are matched against.
type Subject struct {
	Namespace string
	// Kind, APIVersion and Name are those of the workload that it is about; empty = none.
	Kind, APIVersion, Name string

	Labels   map[string]string
	Pipeline string // name@version that the object pins; empty = the default
}

// Match selects the objects of an overlay. An empty Match selects all of them.
type Match struct {
	Namespaces []source.Scalar
	Except     []source.Scalar // namespaces that are left out
	Kinds      []source.Scalar
	// All requirements must hold: on the labels of the object, of its namespace, and of the workload that it is about.
	Selector, NamespaceSelector, WorkloadSelector []Requirement
}

// Requirement is a condition on a label, as in a Kubernetes label selector.
type Requirement struct {
	Key      source.Scalar
	Operator source.Scalar // In, NotIn, Exists or DoesNotExist
	Values   []source.Scalar
}

const (
	opIn           = "In"
	opNotIn        = "NotIn"
	opExists       = "Exists"
	opDoesNotExist = "DoesNotExist"
)

// Everything reports whether all objects match.
func (m *Match) Everything() bool {
	return len(m.Namespaces) == 0 && len(m.Except) == 0 && len(m.Kinds) == 0 && len(m.Selector)+len(m.NamespaceSelector)+len(m.WorkloadSelector) == 0
}

// Matches reports whether an object matches, but for labels of other objects.
func (m *Match) Matches(s Subject) bool {
	switch {
	case len(m.Namespaces) > 0 && !contains(m.Namespaces, s.Namespace), contains(m.Except, s.Namespace), len(m.Kinds) > 0 && !contains(m.Kinds, s.Kind),
		len(m.WorkloadSelector) > 0 && s.Name == "": // there is no workload
		return false
	}
	return Hold(m.Selector, s.Labels)
}

// Hold reports whether labels meet all requirements.
func Hold(selector []Requirement, labels map[string]string) bool {
	for i := range selector {
		if !selector[i].holds(labels) {
			return false
		}
	}
	return true
}

func (r *Requirement) holds(labels map[string]string) bool {
	value, has := labels[r.Key.Value]
	switch r.Operator.Value {
	case opIn:
		return has && contains(r.Values, value)
	case opNotIn:
		return !has || !contains(r.Values, value)
	case opExists:
		return has
	}
	return !has
}

// String describes the objects that match.
func (m *Match) String() string {
	var parts []string
	if len(m.Namespaces) > 0 {
		parts = append(parts, "namespaces "+joined(m.Namespaces))
	}
	if len(m.Except) > 0 {
		parts = append(parts, "all namespaces but "+joined(m.Except))
	}
	if len(m.Kinds) > 0 {
		parts = append(parts, "kinds "+joined(m.Kinds))
	}
	if len(m.NamespaceSelector) > 0 {
		parts = append(parts, "namespaces with "+strings.Join(described(m.NamespaceSelector), " and "))
	}
	if len(m.WorkloadSelector) > 0 {
		parts = append(parts, "workloads with "+strings.Join(described(m.WorkloadSelector), " and "))
	}
	parts = append(parts, described(m.Selector)...)
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}

func described(selector []Requirement) (out []string) {
	for _, r := range selector {
		switch r.Operator.Value {
		case opIn, opNotIn:
			if len(r.Values) == 1 { // as kubectl writes it
				is := map[string]string{opIn: "=", opNotIn: "!="}[r.Operator.Value]
				out = append(out, r.Key.Value+is+r.Values[0].Value)
				continue
			}
			out = append(out, fmt.Sprintf("%s %s (%s)", r.Key.Value, strings.ToLower(r.Operator.Value), joined(r.Values)))
		case opExists:
			out = append(out, r.Key.Value)
		default:
			out = append(out, "!"+r.Key.Value)
		}
	}
	return out
}

func joined(list []source.Scalar) string {
	var out []string
	for _, s := range list {
		out = append(out, s.Value)
	}
	return strings.Join(out, ", ")
}

// Overlaps reports whether one object may match both; only a namespace, kind or label rules it out.
func (m *Match) Overlaps(other *Match) bool {
	if !m.sharesNamespace(other) || !other.sharesNamespace(m) || len(m.Kinds) > 0 && len(other.Kinds) > 0 && !share(m.Kinds, other.Kinds) {
		return false
	}
	return !contradict(m.Selector, other.Selector) && !contradict(m.NamespaceSelector, other.NamespaceSelector) && !contradict(m.WorkloadSelector, other.WorkloadSelector)
}

// contradict reports whether no labels meet both selectors.
func contradict(one, other []Requirement) bool {
	for i := range one {
		for j := range other {
			if a, b := &one[i], &other[j]; a.Key.Value == b.Key.Value && (a.excludes(b) || b.excludes(a)) {
				return true
			}
		}
	}
	return false
}

// sharesNamespace reports whether one of the namespaces that are named, if any are, may match other.
func (m *Match) sharesNamespace(other *Match) bool {
	return len(m.Namespaces) == 0 || slices.ContainsFunc(m.Namespaces, func(n source.Scalar) bool {
		return (len(other.Namespaces) == 0 || contains(other.Namespaces, n.Value)) && !contains(other.Except, n.Value)
	})
}

// excludes reports whether no label value meets both requirements, which share a key.
func (r *Requirement) excludes(other *Requirement) bool {
	switch {
	case r.Operator.Value == opIn && other.Operator.Value == opIn:
		return !share(r.Values, other.Values)
	case r.Operator.Value == opIn && other.Operator.Value == opNotIn:
		return !slices.ContainsFunc(r.Values, func(v source.Scalar) bool { return !contains(other.Values, v.Value) })
	case r.Operator.Value == opIn || r.Operator.Value == opExists:
		return other.Operator.Value == opDoesNotExist
	}
	return false
}

func share(a, b []source.Scalar) bool {
	return slices.ContainsFunc(a, func(s source.Scalar) bool { return contains(b, s.Value) })
}

func contains(list []source.Scalar, value string) bool {
	return slices.ContainsFunc(list, func(s source.Scalar) bool { return s.Value == value })
}

// selector reads a Kubernetes label selector; matchLabels become In requirements.
func (d *Decoder) selector(to *[]Requirement) func(*yaml.Node) {
	return func(n *yaml.Node) {
		seen := d.object(n, fields{
			"matchLabels": d.orderedMap(func(key, value source.Scalar) {
				*to = append(*to, Requirement{Key: key, Operator: source.Scalar{Value: opIn}, Values: []source.Scalar{value}})
			}),
			"matchExpressions": func(v *yaml.Node) {
				var list []Requirement
				each(d, &list, d.requirementFields)(v)
				for _, r := range list {
					d.checkRequirement(r)
				}
				*to = append(*to, list...)
			},
		})
		if len(seen) == 0 && len(n.Content) == 0 { // reported already
			d.Problem(n, "the selector is empty; give it matchLabels or matchExpressions, or leave it out to mean every object")
		}
	}
}

func (d *Decoder) requirementFields(r *Requirement, at source.Scalar) fields {
	r.Key = at
	return fields{"key": d.into(&r.Key), "operator": d.into(&r.Operator), "values": d.Scalars(&r.Values)}
}

func (d *Decoder) checkRequirement(r Requirement) {
	if r.Key.Value == "" {
		d.Problems.At(r.Key, d.Subject, "a requirement has no key")
	}
	d.checkOneOf("operator", r.Operator, opIn, opNotIn, opExists, opDoesNotExist)
	switch wantsValues := r.Operator.Value == opIn || r.Operator.Value == opNotIn; {
	case r.Operator.IsZero():
		d.Problems.At(r.Key, d.Subject, fmt.Sprintf("the requirement on %s has no operator", r.Key.Value))
	case !slices.Contains([]string{opIn, opNotIn, opExists, opDoesNotExist}, r.Operator.Value): // reported already
	case wantsValues && len(r.Values) == 0:
		d.Problems.At(r.Operator, d.Subject, fmt.Sprintf("operator %s needs values", r.Operator.Value))
	case !wantsValues && len(r.Values) > 0:
		d.Problems.At(r.Operator, d.Subject, fmt.Sprintf("operator %s takes no values", r.Operator.Value))
	}
}
