package document

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine/source"
)

// fields maps the keys of an object to their readers.
type fields map[string]func(*yaml.Node)

// object reads a mapping strictly and returns its value nodes by key.
func (d *Decoder) object(n *yaml.Node, known fields) map[string]*yaml.Node {
	seen := map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode {
		d.Problem(n, "expected a mapping with keys "+knownKeys(known))
		return seen
	}
	d.Pairs(n, func(key source.Scalar, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok {
			d.Problems.At(key, d.Subject, fmt.Sprintf("unknown key %q; known here: %s", key.Value, knownKeys(known)))
			return
		}
		seen[key.Value] = value
		read(value)
	})
	return seen
}

// Pairs calls f for each key of a mapping and reports duplicate keys.
func (d *Decoder) Pairs(n *yaml.Node, f func(source.Scalar, *yaml.Node)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := d.Scalar(n.Content[i])
		if seen[key.Value] {
			d.Problems.At(key, d.Subject, fmt.Sprintf("key %q stands twice", key.Value))
			continue
		}
		seen[key.Value] = true
		f(key, n.Content[i+1])
	}
}

// each reads a list of objects. known also gets the position of the item, in case it has no name.
func each[T any](d *Decoder, to *[]T, known func(*T, source.Scalar) fields) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.Problem(n, "expected a list")
			return
		}
		for _, item := range n.Content {
			var value T
			d.object(item, known(&value, d.place(item)))
			*to = append(*to, value)
		}
	}
}

func one[T any](d *Decoder, to **T, known func(*T, source.Scalar) fields) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to = new(T)
		d.object(n, known(*to, d.place(n)))
	}
}

// place is an empty scalar at the position of a node.
func (d *Decoder) place(n *yaml.Node) source.Scalar {
	return source.NewScalar("", d.position(n), 0, d.Lines)
}

func (d *Decoder) variables(to *[]Variable) func(*yaml.Node) {
	return d.orderedMap(func(key, value source.Scalar) { *to = append(*to, Variable{Name: key, Expression: value}) })
}

func (d *Decoder) assignments(to *[]Assignment) func(*yaml.Node) {
	return d.orderedMap(func(key, value source.Scalar) { *to = append(*to, Assignment{Path: key, Expression: value}) })
}

func (d *Decoder) orderedMap(f func(key, value source.Scalar)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.Problem(n, "expected a mapping from name to expression")
			return
		}
		d.Pairs(n, func(key source.Scalar, v *yaml.Node) { f(key, d.Scalar(v)) })
	}
}

// scalarOrScalars reads a list, or a scalar as a list of one.
func (d *Decoder) scalarOrScalars(to *[]source.Scalar) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind == yaml.SequenceNode {
			d.Scalars(to)(n)
			return
		}
		*to = append(*to, d.Scalar(n))
	}
}

// Scalars reads a list of scalars.
func (d *Decoder) Scalars(to *[]source.Scalar) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.Problem(n, "expected a list")
			return
		}
		for _, item := range n.Content {
			*to = append(*to, d.Scalar(item))
		}
	}
}

func (d *Decoder) into(to *source.Scalar) func(*yaml.Node) {
	return func(n *yaml.Node) { *to = d.Scalar(n) }
}

func (d *Decoder) text(to *string) func(*yaml.Node) {
	return func(n *yaml.Node) { *to = strings.TrimSpace(d.Scalar(n).Value) }
}

// Scalar reads a string, number or boolean as written; anything else is a problem.
func (d *Decoder) Scalar(n *yaml.Node) source.Scalar {
	if n.Kind != yaml.ScalarNode {
		d.Problem(n, "expected a single value")
		return source.Scalar{}
	}
	style := n.Style &^ yaml.TaggedStyle
	return source.NewScalar(n.Value, d.position(n), style, d.Lines)
}

func (d *Decoder) position(n *yaml.Node) source.Position {
	return source.Position{File: d.File, Line: n.Line, Col: n.Column}
}

// Problem reports a problem at a node.
func (d *Decoder) Problem(n *yaml.Node, message string) {
	pos := d.position(n)
	d.Problems.Add(&source.Problem{Pos: pos, Subject: d.Subject, Message: message, Excerpt: source.Excerpt(d.Lines, pos)})
}

func knownKeys(f fields) string {
	return strings.Join(slices.Sorted(maps.Keys(f)), ", ")
}
