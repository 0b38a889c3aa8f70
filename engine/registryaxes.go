package engine

import (
	"maps"
	"slices"
	"strings"
)

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
	for _, name := range slices.Sorted(maps.Keys(r.axes)) {
		a := r.axes[name]
		if len(values) == len(a.Values) && !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(a.Values, v) }) {
			return a
		}
	}
	return nil
}

// axesInWords lists the axes with their values.
func (r *Registry) axesInWords() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.axes)) {
		out = append(out, name+" with "+strings.Join(r.axes[name].Values, ", "))
	}
	return out
}
