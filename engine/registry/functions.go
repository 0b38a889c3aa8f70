package registry

import "github.com/celvpa/celvpa/engine/internal/closure"

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
