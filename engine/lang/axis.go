package lang

import (
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/source"
)

// Axis is a dimension with one field per value in many facts, e.g. resource with cpu and memory. A
// stage, validation or parameter that names it is compiled once per value, with the value as a
// constant: now[resource] becomes now.cpu, at no cost at run time.
type Axis struct {
	Name   string   // variable for the current value, e.g. resource
	Plural string   // variable for all values, in resources.exists(r, …), all and map
	Values []string // in the order in which stages run for them
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

// Path substitutes the value in a path: now[resource] becomes now.cpu.
func (v *AxisValue) Path(path string) string {
	if v == nil {
		return path
	}
	return strings.ReplaceAll(path, "["+v.Axis.Name+"]", "."+v.Value)
}

// Text substitutes the value in prose: {resource} becomes cpu.
func (v *AxisValue) Text(text string) string {
	if v == nil {
		return text
	}
	return strings.ReplaceAll(text, "{"+v.Axis.Name+"}", v.Value)
}

// Suffix is the address suffix that selects this value only; empty for nil.
func (v *AxisValue) Suffix() string {
	if v == nil {
		return ""
	}
	return "[" + v.Value + "]"
}

// CutValue splits an address of one value: min-allowed[memory] is min-allowed and memory.
func CutValue(address string) (name, value string) {
	name, rest, found := strings.Cut(address, "[")
	if value, closed := strings.CutSuffix(rest, "]"); found && closed {
		return name, value
	}
	return address, ""
}

// IsLeftOut reports whether a stage, rule or validation excludes a value.
func IsLeftOut(without []source.Scalar, value string) bool {
	return slices.ContainsFunc(without, func(s source.Scalar) bool { return s.Value == value })
}
