package registry

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
)

// Function is a function that rules can call. It must be pure: the engine may call it early, and
// only once for constant arguments.
type Function = closure.Function

// Overload implements a function for one combination of argument types. Func1, Func2 and Try1 to
// Try3 wrap a Go function over int64, float64, bool, string, []int64 or a host type: a ref.Val
// whose zero value has a working Type method. It must not modify a list it receives or has
// returned, because lists are shared. A panic fails only the expression.
type Overload = closure.Overload

// UnitRule derives the unit of a function's result from the units of its arguments.
type UnitRule = closure.UnitRule

// The unit rules. NoUnit is the default.
const (
	// NoUnit: the result is a plain number.
	NoUnit = closure.NoUnit
	// SameUnit: the arguments must agree; the result has their unit.
	SameUnit = closure.SameUnit
	// AgreeingArguments: the arguments must agree; the result is a plain number.
	AgreeingArguments = closure.AgreeingArguments
	// FirstUnit: the result has the unit of the first argument; the others are plain.
	FirstUnit = closure.FirstUnit
)

// Func1 wraps a function of one argument that never fails.
func Func1[A, R any](f func(A) R) Overload { return closure.Func1(f) }

// Func2 wraps a function of two arguments that never fails.
func Func2[A, B, R any](f func(A, B) R) Overload { return closure.Func2(f) }

// Try1 wraps a function of one argument that may fail.
func Try1[A, R any](f func(A) (R, error)) Overload { return closure.Try1(f) }

// Try2 wraps a function of two arguments that may fail.
func Try2[A, B, R any](f func(A, B) (R, error)) Overload { return closure.Try2(f) }

// Try3 wraps a function of three arguments that may fail.
func Try3[A, B, C, R any](f func(A, B, C) (R, error)) Overload { return closure.Try3(f) }

// ParseScalar parses a YAML scalar or a flag as a value of a type.
func (r *Registry) ParseScalar(t lang.Type, text string) (ref.Val, error) {
	if t.Unit() != "" {
		n, err := r.units[t.Unit()].Parse(text)
		if err != nil {
			return nil, err
		}
		return types.Int(n), nil
	}
	switch t.CELType() {
	case cel.IntType:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return types.Int(n), nil
	case cel.DoubleType:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%q is not a finite number", text)
		}
		return types.Double(f), nil
	case cel.BoolType:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return types.Bool(b), nil
	case cel.StringType:
		return types.String(text), nil
	}
	for _, x := range r.texts {
		if x.Type == t {
			return x.Parse(text)
		}
	}
	return nil, fmt.Errorf("a value of type %s cannot be written down", t)
}

// Format formats a value of a type as a user would write it.
func (r *Registry) Format(t lang.Type, v ref.Val) string {
	if v == nil {
		return "unset"
	}
	if n, ok := v.(types.Int); ok && t.Unit() != "" {
		return r.units[t.Unit()].Format(int64(n))
	}
	return fmt.Sprint(v.Value())
}

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
