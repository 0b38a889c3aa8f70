package registry

import (
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/lang"
)

// AddAxis declares an axis. It panics on a duplicate name, a programming error.
func (r *Registry) AddAxis(a lang.Axis) {
	if r.axes[a.Name] != nil {
		panic("engine: axis " + a.Name + " declared twice")
	}
	r.axes[a.Name] = &a
}

// AxisWithPlural finds an axis by its plural.
func (r *Registry) AxisWithPlural(name string) *lang.Axis {
	for _, a := range r.axes {
		if a.Plural == name {
			return a
		}
	}
	return nil
}

// AxisOf finds the axis with exactly these values, in any order.
func (r *Registry) AxisOf(values []string) *lang.Axis {
	for _, name := range slices.Sorted(maps.Keys(r.axes)) {
		a := r.axes[name]
		if len(values) == len(a.Values) && !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(a.Values, v) }) {
			return a
		}
	}
	return nil
}

// AxesInWords describes each axis with its values.
func (r *Registry) AxesInWords() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.axes)) {
		out = append(out, name+" with "+strings.Join(r.axes[name].Values, ", "))
	}
	return out
}
