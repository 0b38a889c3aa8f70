package lang

import (
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/source"
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

// AxisValue is the value that a stage, a validation or a parameter is compiled for.
type AxisValue struct {
	Axis  *Axis
	Value string
}

// AxisAt is the axis of a value, nil for none.
func AxisAt(v *AxisValue) *Axis {
	if v == nil {
		return nil
	}
	return v.Axis
}

// Path puts the value into a path: now[resource] becomes now.cpu.
func (v *AxisValue) Path(path string) string {
	if v == nil {
		return path
	}
	return strings.ReplaceAll(path, "["+v.Axis.Name+"]", "."+v.Value)
}

// Text puts the value into prose: {resource} becomes cpu.
func (v *AxisValue) Text(text string) string {
	if v == nil {
		return text
	}
	return strings.ReplaceAll(text, "{"+v.Axis.Name+"}", v.Value)
}

// Suffix is what an address ends with that means this value only; empty without one.
func (v *AxisValue) Suffix() string {
	if v == nil {
		return ""
	}
	return "[" + v.Value + "]"
}

// CutValue takes an address of one value apart: min-allowed[memory] is min-allowed and memory.
func CutValue(address string) (name, value string) {
	name, rest, found := strings.Cut(address, "[")
	if value, closed := strings.CutSuffix(rest, "]"); found && closed {
		return name, value
	}
	return address, ""
}

// IsLeftOut reports whether a value is among those that a stage, rule or validation is without.
func IsLeftOut(without []source.Scalar, value string) bool {
	return slices.ContainsFunc(without, func(s source.Scalar) bool { return s.Value == value })
}
