package registry

import "github.com/celvpa/celvpa/engine/internal/closure"

// Function is what rules can call by a name. Functions are pure: the engine may call one earlier than a rule does, and not
// again when its arguments are always the same.
type Function = closure.Function

// Overload is a function for one combination of argument types. Func1, Func2 and Try1 to Try3 make one of a Go function,
// whose arguments and result are int64, float64, bool, string, []int64, or a host type: one that implements ref.Val and whose
// zero value knows its type. It must not change a list that it was given, nor one that it gave: others hold it too. A panic
// in it fails the expression, not the program.
type Overload = closure.Overload

// UnitRule says what units a function takes and gives.
type UnitRule = closure.UnitRule

// The unit rules. NoUnit is what a function has that declares none.
const (
	// NoUnit means that the result is a plain number.
	NoUnit = closure.NoUnit
	// SameUnit means that the arguments must agree, and that the result has their unit.
	SameUnit = closure.SameUnit
	// AgreeingArguments means that the arguments must agree, and that the result is a plain number.
	AgreeingArguments = closure.AgreeingArguments
	// FirstUnit means that the result has the unit of the first argument, and that the others are plain.
	FirstUnit = closure.FirstUnit
)

// Func1 is a function of one argument that never fails.
func Func1[A, R any](f func(A) R) Overload { return closure.Func1(f) }

// Func2 is a function of two arguments that never fails.
func Func2[A, B, R any](f func(A, B) R) Overload { return closure.Func2(f) }

// Try1 is a function of one argument that may fail.
func Try1[A, R any](f func(A) (R, error)) Overload { return closure.Try1(f) }

// Try2 is a function of two arguments that may fail.
func Try2[A, B, R any](f func(A, B) (R, error)) Overload { return closure.Try2(f) }

// Try3 is a function of three arguments that may fail.
func Try3[A, B, C, R any](f func(A, B, C) (R, error)) Overload { return closure.Try3(f) }
