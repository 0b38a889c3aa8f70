package document

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// paramName matches name, or name.value for one value of an axis.
var paramName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*)?$`)

// CutParam splits the name of a parameter; value is empty without an axis.
func CutParam(p string) (name, value string) {
	name, value, _ = strings.Cut(p, ".")
	return name, value
}

// writtenParam is a parameter as written: a mapping holds one entry per axis value.
type writtenParam struct {
	name, each source.Scalar
	keys       map[string]perValue // type, default, min, max, flag, description
}

// perValue is one text for all axis values, or one for each.
type perValue struct {
	all    source.Scalar
	values []string // in the order written
	of     map[string]source.Scalar
	at     *yaml.Node
}

func (p perValue) For(value string) source.Scalar {
	if p.of == nil {
		return p.all
	}
	return p.of[value]
}

// params reads a list of parameters and expands one with an axis to one per value.
func (d *Decoder) params(to *[]Param) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.Problem(n, "expected a list")
			return
		}
		for _, item := range n.Content {
			w := writtenParam{name: d.place(item), keys: map[string]perValue{}}
			known := fields{"name": d.into(&w.name), "each": d.into(&w.each)}
			for _, key := range []string{"type", "default", "min", "max", "flag", "description"} {
				known[key] = func(v *yaml.Node) { w.keys[key] = d.perValue(v) }
			}
			d.object(item, known)
			*to = append(*to, d.expanded(item, w)...)
		}
	}
}

func (d *Decoder) perValue(n *yaml.Node) perValue {
	if n.Kind != yaml.MappingNode {
		return perValue{all: d.Scalar(n)}
	}
	out := perValue{of: map[string]source.Scalar{}, at: n}
	d.Pairs(n, func(key source.Scalar, value *yaml.Node) {
		out.values = append(out.values, key.Value)
		out.of[key.Value] = d.Scalar(value)
	})
	return out
}

// expanded returns the parameters of one entry. The axis values are those that the entry lists.
func (d *Decoder) expanded(item *yaml.Node, w writtenParam) []Param {
	var values []string
	for _, key := range []string{"flag", "default", "type", "min", "max", "description"} {
		p := w.keys[key]
		switch {
		case p.of == nil:
		case w.each.IsZero():
			d.Problem(p.at, key+" is one value; name the axis that it has several for, as in each: resource")
			return nil
		case values == nil:
			values = p.values
		case len(values) != len(p.values) || strings.Join(values, " ") != strings.Join(p.values, " "):
			d.Problem(p.at, fmt.Sprintf("%s is given for %s, and elsewhere for %s: give it for the same values in the same order", key, strings.Join(p.values, ", "), strings.Join(values, ", ")))
			return nil
		}
	}
	if w.each.IsZero() {
		return []Param{w.param(w.name, nil)}
	}
	if values == nil {
		d.Problems.At(w.each, d.Subject, fmt.Sprintf("nothing of param %s is given for each %s; write e.g. its flags as {cpu: …, memory: …}", w.name.Value, w.each.Value))
		return nil
	}
	var out []Param
	for _, value := range values {
		name := w.name
		name.Value += "." + value
		out = append(out, w.param(name, &lang.AxisValue{Axis: &lang.Axis{Name: w.each.Value}, Value: value}))
	}
	return out
}

func (w writtenParam) param(name source.Scalar, v *lang.AxisValue) Param {
	value := ""
	if v != nil {
		value = v.Value
	}
	get := func(key string) source.Scalar { return w.keys[key].For(value) }
	return Param{Name: name, Each: w.each, Type: get("type"), Default: get("default"), Min: get("min"), Max: get("max"),
		Flag: strings.TrimSpace(get("flag").Value), Description: v.Text(strings.TrimSpace(get("description").Value))}
}
