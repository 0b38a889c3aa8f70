package engine

import (
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

// isLeftOut reports whether a value is among those that a stage, rule or validation is without.
func isLeftOut(without []Scalar, value string) bool {
	return slices.ContainsFunc(without, func(s Scalar) bool { return s.Value == value })
}
