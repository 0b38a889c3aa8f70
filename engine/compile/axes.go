package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// axisNamed reports an unknown axis and returns nil.
func (c *compiler) axisNamed(name source.Scalar, subject string) *lang.Axis {
	a := c.reg.Axes()[name.Value]
	if a == nil {
		c.ps.At(name, subject, fmt.Sprintf("no axis %q; known: %s", name.Value, strings.Join(slices.Sorted(maps.Keys(c.reg.Axes())), ", ")))
	}
	return a
}

// each resolves a stage's scopes and axis. A stage without scopes has the single scope nil.
func (c *compiler) each(point *registry.Point, list []source.Scalar, subject string) (scopes []*registry.Scope, axis *lang.Axis, ok bool) {
	for i, name := range list {
		s, a := point.Scope(name.Value), c.reg.Axes()[name.Value]
		switch {
		case slices.ContainsFunc(list[:i], func(other source.Scalar) bool { return other.Value == name.Value }):
			c.ps.At(name, subject, name.Value+" stands in each twice")
			return nil, nil, false
		case s == nil && a == nil:
			c.ps.At(name, subject, fmt.Sprintf("point %s has no scope %q; known: %s", point.Name, name.Value,
				strings.Join(append(slices.Sorted(maps.Keys(point.ScopeIndex())), slices.Sorted(maps.Keys(c.reg.Axes()))...), ", ")))
			return nil, nil, false
		case a != nil && axis != nil:
			c.ps.At(name, subject, "each takes one axis at most")
			return nil, nil, false
		case s != nil:
			scopes = append(scopes, s)
		default:
			axis = a
		}
	}
	if len(scopes) == 0 {
		scopes = []*registry.Scope{nil}
	}
	return scopes, axis, true
}

// valuesBut returns the axis values that are not left out, and reports values the axis lacks.
func (c *compiler) valuesBut(axis *lang.Axis, without []source.Scalar, subject string) []*lang.AxisValue {
	if axis == nil {
		for _, w := range without {
			c.ps.At(w, subject, "`without` is only valid beside `each`")
		}
		return []*lang.AxisValue{nil}
	}
	for _, w := range without {
		if !slices.Contains(axis.Values, w.Value) {
			c.ps.At(w, subject, fmt.Sprintf("%s has no value %q; %s", axis.Name, w.Value, faults.Has(w.Value, axis.Values)))
		}
	}
	var out []*lang.AxisValue
	for _, value := range axis.Values {
		if !lang.IsLeftOut(without, value) {
			out = append(out, &lang.AxisValue{Axis: axis, Value: value})
		}
	}
	return out
}

// oneFieldEach reports rules that write one field for every axis value: the last would win.
func (c *compiler) oneFieldEach(axis *lang.Axis, st *document.Stage, subject string) {
	if axis == nil {
		return
	}
	for _, r := range st.Rules {
		left := slices.DeleteFunc(slices.Clone(axis.Values), func(v string) bool { return lang.IsLeftOut(st.Without, v) || lang.IsLeftOut(r.Without, v) })
		if len(left) < 2 {
			continue
		}
		check := func(path source.Scalar) {
			if !strings.Contains(path.Value, "["+axis.Name+"]") {
				c.ps.At(path, subject+", rule "+r.Name.Value, fmt.Sprintf("%s would be written once for each %s, and the last would win; write a field of each, such as %s[%s], "+
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

func parentPath(path string) string {
	if i := strings.LastIndex(path, "."); i > 0 {
		return path[:i]
	}
	return path
}
