package engine

import (
	"fmt"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fields maps the keys an object may have to what reads their value.
type fields map[string]func(*yaml.Node)

// object reads a mapping strictly and returns its value nodes by key.
func (d *decoder) object(n *yaml.Node, known fields) map[string]*yaml.Node {
	seen := map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode {
		d.problem(n, "expected a mapping with keys "+knownKeys(known))
		return seen
	}
	d.pairs(n, func(key Scalar, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok {
			d.ps.at(key, d.subject, fmt.Sprintf("unknown key %q; known here: %s", key.Value, knownKeys(known)))
			return
		}
		seen[key.Value] = value
		read(value)
	})
	return seen
}

// pairs calls f for each key of a mapping and reports keys that stand twice.
func (d *decoder) pairs(n *yaml.Node, f func(Scalar, *yaml.Node)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := d.scalar(n.Content[i])
		if seen[key.Value] {
			d.ps.at(key, d.subject, fmt.Sprintf("key %q stands twice", key.Value))
			continue
		}
		seen[key.Value] = true
		f(key, n.Content[i+1])
	}
}

// each reads a sequence of objects into a slice. known also gets a scalar without value at the place of the item, so
// that an item without a name can be found.
func each[T any](d *decoder, to *[]T, known func(*T, Scalar) fields) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.problem(n, "expected a list")
			return
		}
		for _, item := range n.Content {
			var one T
			d.object(item, known(&one, d.place(item)))
			*to = append(*to, one)
		}
	}
}

// one reads a single object.
func one[T any](d *decoder, to **T, known func(*T, Scalar) fields) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to = new(T)
		d.object(n, known(*to, d.place(n)))
	}
}

// place is a scalar without value where a node begins.
func (d *decoder) place(n *yaml.Node) Scalar { return Scalar{Pos: d.position(n), lines: d.lines} }

func (d *decoder) variables(to *[]Variable) func(*yaml.Node) {
	return d.orderedMap(func(key, value Scalar) { *to = append(*to, Variable{Name: key, Expression: value}) })
}

func (d *decoder) assignments(to *[]Assignment) func(*yaml.Node) {
	return d.orderedMap(func(key, value Scalar) { *to = append(*to, Assignment{Path: key, Expression: value}) })
}

func (d *decoder) orderedMap(f func(key, value Scalar)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.problem(n, "expected a mapping from name to expression")
			return
		}
		d.pairs(n, func(key Scalar, v *yaml.Node) { f(key, d.scalar(v)) })
	}
}

// scalarOrScalars reads a list, or what stands for a list of one.
func (d *decoder) scalarOrScalars(to *[]Scalar) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind == yaml.SequenceNode {
			d.scalars(to)(n)
			return
		}
		*to = append(*to, d.scalar(n))
	}
}

func (d *decoder) scalars(to *[]Scalar) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.problem(n, "expected a list")
			return
		}
		for _, item := range n.Content {
			*to = append(*to, d.scalar(item))
		}
	}
}

func (d *decoder) into(to *Scalar) func(*yaml.Node) {
	return func(n *yaml.Node) { *to = d.scalar(n) }
}

func (d *decoder) text(to *string) func(*yaml.Node) {
	return func(n *yaml.Node) { *to = strings.TrimSpace(d.scalar(n).Value) }
}

func (d *decoder) scalar(n *yaml.Node) Scalar {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, "expected a single value")
		return Scalar{}
	}
	style := n.Style &^ yaml.TaggedStyle
	return Scalar{Value: n.Value, Pos: d.position(n), style: style, lines: d.lines}
}

func (d *decoder) position(n *yaml.Node) Position {
	return Position{File: d.file, Line: n.Line, Col: n.Column}
}

func (d *decoder) problem(n *yaml.Node, message string) {
	pos := d.position(n)
	d.ps.add(&Problem{Pos: pos, Subject: d.subject, Message: message, Excerpt: excerpt(d.lines, pos)})
}

func knownKeys(f fields) string {
	keys := make([]string, 0, len(f))
	for k := range f {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return strings.Join(keys, ", ")
}
