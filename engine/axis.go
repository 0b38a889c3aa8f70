package engine

import (
	"fmt"
	"slices"
	"strings"
)

// Axis is what many facts have a field for each value of, e.g. resource with cpu and memory. A stage, a validation or a
// parameter that names it stands for one of each value. There, the axis is a constant: now[resource] is now.cpu for the
// value cpu, and resource == 'cpu' is known beforehand, so an axis costs nothing at run time.
type Axis struct {
	Name   string   // what expressions call the value at hand, e.g. resource
	Plural string   // what expressions call all of them, in resources.exists(r, …), all and map
	Values []string // in the order in which stages go through them
	Doc    string
}

// AddAxis declares an axis. It panics on a name that is taken, a fault of the program.
func (r *Registry) AddAxis(a Axis) {
	if r.axes[a.Name] != nil {
		panic("engine: axis " + a.Name + " declared twice")
	}
	r.axes[a.Name] = &a
}

// axisWithPlural finds an axis by its plural.
func (r *Registry) axisWithPlural(name string) *Axis {
	for _, a := range r.axes {
		if a.Plural == name {
			return a
		}
	}
	return nil
}

// axisOf finds the axis that has just these values, in any order.
func (r *Registry) axisOf(values []string) *Axis {
	for _, name := range sortedKeys(r.axes) {
		a := r.axes[name]
		if len(values) == len(a.Values) && !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(a.Values, v) }) {
			return a
		}
	}
	return nil
}

// axisValue is the value that a stage, a validation or a parameter is compiled for.
type axisValue struct {
	axis  *Axis
	value string
}

// axisAt is the axis of a value, nil for none.
func axisAt(v *axisValue) *Axis {
	if v == nil {
		return nil
	}
	return v.axis
}

// path puts the value into a path: now[resource] becomes now.cpu.
func (v *axisValue) path(path string) string {
	if v == nil {
		return path
	}
	return strings.ReplaceAll(path, "["+v.axis.Name+"]", "."+v.value)
}

// text puts the value into prose: {resource} becomes cpu.
func (v *axisValue) text(text string) string {
	if v == nil {
		return text
	}
	return strings.ReplaceAll(text, "{"+v.axis.Name+"}", v.value)
}

// suffix is what an address ends with that means this value only; empty without one.
func (v *axisValue) suffix() string {
	if v == nil {
		return ""
	}
	return "[" + v.value + "]"
}

// cutValue takes an address of one value apart: min-allowed[memory] is min-allowed and memory.
func cutValue(address string) (name, value string) {
	name, rest, found := strings.Cut(address, "[")
	if value, closed := strings.CutSuffix(rest, "]"); found && closed {
		return name, value
	}
	return address, ""
}

// axisNamed looks up the axis that a document names.
func (c *compiler) axisNamed(name Scalar, subject string) *Axis {
	a := c.reg.axes[name.Value]
	if a == nil {
		c.ps.at(name, subject, fmt.Sprintf("no axis %q; known: %s", name.Value, strings.Join(sortedKeys(c.reg.axes), ", ")))
	}
	return a
}

// each looks up what a stage goes through: the items of scopes, one scope after the other, and the values of an axis. A stage
// without scopes has nil for one.
func (c *compiler) each(point *Point, list []Scalar, subject string) (scopes []*Scope, axis *Axis, ok bool) {
	for i, name := range list {
		s, a := point.scope(name.Value), c.reg.axes[name.Value]
		switch {
		case slices.ContainsFunc(list[:i], func(other Scalar) bool { return other.Value == name.Value }):
			c.ps.at(name, subject, name.Value+" stands in each twice")
			return nil, nil, false
		case s == nil && a == nil:
			c.ps.at(name, subject, fmt.Sprintf("point %s has no scope %q; known: %s", point.Name, name.Value,
				strings.Join(append(sortedKeys(point.scopeIndex), sortedKeys(c.reg.axes)...), ", ")))
			return nil, nil, false
		case a != nil && axis != nil:
			c.ps.at(name, subject, "each takes one axis at most")
			return nil, nil, false
		case s != nil:
			scopes = append(scopes, s)
		default:
			axis = a
		}
	}
	if len(scopes) == 0 {
		scopes = []*Scope{nil}
	}
	return scopes, axis, true
}

// someScope is the name of a scope of the point, in a list, for examples.
func (p *Point) someScope() []string {
	if len(p.Scopes) == 0 {
		return nil
	}
	return []string{p.Scopes[0].Name}
}

// valuesBut are the values of an axis but for those that are left out; a value that is none is a problem.
func (c *compiler) valuesBut(axis *Axis, without []Scalar, subject string) []*axisValue {
	if axis == nil {
		for _, w := range without {
			c.ps.at(w, subject, "without belongs to what names an axis")
		}
		return []*axisValue{nil}
	}
	for _, w := range without {
		if !slices.Contains(axis.Values, w.Value) {
			c.ps.at(w, subject, fmt.Sprintf("%s has no value %q; it has %s", axis.Name, w.Value, strings.Join(axis.Values, ", ")))
		}
	}
	var out []*axisValue
	for _, value := range axis.Values {
		if !isLeftOut(without, value) {
			out = append(out, &axisValue{axis, value})
		}
	}
	return out
}

// isLeftOut reports whether a value is among those that a stage, rule or validation is without.
func isLeftOut(without []Scalar, value string) bool {
	return slices.ContainsFunc(without, func(s Scalar) bool { return s.Value == value })
}

// oneFieldEach reports rules of an axis that write one field for all its values: the last would win.
func (c *compiler) oneFieldEach(axis *Axis, st *Stage, subject string) {
	if axis == nil {
		return
	}
	for _, r := range st.Rules {
		left := slices.DeleteFunc(slices.Clone(axis.Values), func(v string) bool { return isLeftOut(st.Without, v) || isLeftOut(r.Without, v) })
		if len(left) < 2 {
			continue
		}
		check := func(path Scalar) {
			if !strings.Contains(path.Value, "["+axis.Name+"]") {
				c.ps.at(path, subject+", rule "+r.Name.Value, fmt.Sprintf("%s would be written once for each %s, and the last would win; write a field of each, such as %s[%s], "+
					"or put the rule into a stage without %s", path.Value, axis.Name, parentPath(path.Value), axis.Name, axis.Name))
			}
		}
		for _, a := range r.Set {
			check(a.Path)
		}
		for _, u := range r.Unset {
			check(u)
		}
	}
}

// parentPath is a path without its last field.
func parentPath(path string) string {
	if i := strings.LastIndex(path, "."); i > 0 {
		return path[:i]
	}
	return path
}
