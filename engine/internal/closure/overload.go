package closure

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// Function is a function that rules can call. It must be pure: the engine may call it early, and
// only once for constant arguments.
type Function struct {
	Name      string
	Doc       string
	Units     UnitRule
	Overloads []Overload
}

// Signatures lists the function's overloads, e.g. min(int, int) -> int.
func (f *Function) Signatures() []string {
	var out []string
	for _, o := range f.Overloads {
		out = append(out, fmt.Sprintf("%s(%s) -> %s", f.Name, o.argNames(", "), o.result))
	}
	return out
}

// Declaration declares the function to CEL's checker and evaluator.
func (f *Function) Declaration() cel.EnvOption {
	options := []cel.FunctionOpt{cel.FunctionDocs(f.Doc)}
	for _, o := range f.Overloads {
		options = append(options, cel.Overload(o.Id(f.Name), o.args, o.result, o.binding))
	}
	return cel.Function(f.Name, options...)
}

// Overload implements a function for one combination of argument types; see registry.Overload.
type Overload struct {
	args    []*cel.Type
	result  *cel.Type
	binding cel.OverloadOpt
	build   builder // nil = evaluated by CEL
}

func (o Overload) argNames(separator string) string {
	var names []string
	for _, t := range o.args {
		names = append(names, t.String())
	}
	return strings.Join(names, separator)
}

// Id is the overload ID in checked expressions.
func (o Overload) Id(function string) string { return function + "_" + o.argNames("_") }

// Func1 wraps a function of one argument that never fails.
func Func1[A, R any](f func(A) R) Overload {
	return Try1(func(a A) (R, error) { return f(a), nil })
}

// Func2 wraps a function of two arguments that never fails.
func Func2[A, B, R any](f func(A, B) R) Overload {
	return Try2(func(a A, b B) (R, error) { return f(a, b), nil })
}

// Func3 wraps a function of three arguments that never fails.
func Func3[A, B, C, R any](f func(A, B, C) R) Overload {
	return Try3(func(a A, b B, c C) (R, error) { return f(a, b, c), nil })
}

// Try1 wraps a function of one argument that may fail.
func Try1[A, R any](f func(A) (R, error)) Overload {
	return Overload{
		args: []*cel.Type{typeOf[A]()}, result: typeOf[R](),
		binding: cel.UnaryBinding(func(x ref.Val) ref.Val {
			a, ok := lang.Unbox[A](x)
			if !ok {
				return types.MaybeNoSuchOverloadErr(x)
			}
			return result(f(a))
		}),
		build: func(args []node) (node, bool) {
			a, ok := Typed[A](args[0])
			if !ok {
				return node{}, false
			}
			return returned(func(fr *Frame) R {
				x := a(fr)
				return calling(fr, func() (R, error) { return f(x) })
			}, args), true
		},
	}
}

// Try2 wraps a function of two arguments that may fail.
func Try2[A, B, R any](f func(A, B) (R, error)) Overload {
	return Overload{
		args: []*cel.Type{typeOf[A](), typeOf[B]()}, result: typeOf[R](),
		binding: cel.BinaryBinding(func(x, y ref.Val) ref.Val {
			a, okA := lang.Unbox[A](x)
			b, okB := lang.Unbox[B](y)
			if !okA || !okB {
				return types.NoSuchOverloadErr()
			}
			return result(f(a, b))
		}),
		build: func(args []node) (node, bool) {
			a, okA := Typed[A](args[0])
			b, okB := Typed[B](args[1])
			if !okA || !okB {
				return node{}, false
			}
			return returned(func(fr *Frame) R {
				x, y := a(fr), b(fr)
				return calling(fr, func() (R, error) { return f(x, y) })
			}, args), true
		},
	}
}

// Try3 wraps a function of three arguments that may fail.
func Try3[A, B, C, R any](f func(A, B, C) (R, error)) Overload {
	return Overload{
		args: []*cel.Type{typeOf[A](), typeOf[B](), typeOf[C]()}, result: typeOf[R](),
		binding: cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			a, okA := lang.Unbox[A](args[0])
			b, okB := lang.Unbox[B](args[1])
			c, okC := lang.Unbox[C](args[2])
			if !okA || !okB || !okC {
				return types.NoSuchOverloadErr()
			}
			return result(f(a, b, c))
		}),
		build: func(args []node) (node, bool) {
			a, okA := Typed[A](args[0])
			b, okB := Typed[B](args[1])
			c, okC := Typed[C](args[2])
			if !okA || !okB || !okC {
				return node{}, false
			}
			return returned(func(fr *Frame) R {
				x, y, z := a(fr), b(fr), c(fr)
				return calling(fr, func() (R, error) { return f(x, y, z) })
			}, args), true
		},
	}
}

// typeOf returns the CEL type of a Go type. It panics on an unsupported type, a programming error.
func typeOf[T any]() *cel.Type {
	switch zero := any(*new(T)).(type) {
	case int64:
		return cel.IntType
	case float64:
		return cel.DoubleType
	case bool:
		return cel.BoolType
	case string:
		return cel.StringType
	case []int64:
		return cel.ListType(cel.IntType)
	case ref.Val:
		return zero.Type().(*cel.Type)
	}
	panic(fmt.Sprintf("engine: a function cannot take or give a %T", *new(T)))
}

func result[R any](v R, err error) ref.Val {
	if err != nil {
		return types.WrapErr(err)
	}
	out := lang.Box(v)
	if err := bounded(out); err != nil {
		return types.WrapErr(err)
	}
	return out
}

// returned builds the node of a call; lists and host types stay boxed.
func returned[R any](c Code[R], args []node) node {
	switch c := any(c).(type) {
	case Code[string]:
		return fold(func(f *Frame) string {
			text := c(f)
			if len(text) > lang.MaxText {
				f.fail(ErrTextTooLong)
			}
			return text
		}, args...)
	case Code[[]int64]:
		return fold(func(f *Frame) ref.Val {
			list := c(f)
			if f.Err != nil {
				return nil
			}
			return made(f, lang.ListFrom(list).Values)
		}, args...)
	}
	if travelsBoxed[R]() {
		return fold(boxing(c), args...)
	}
	return fold(c, args...)
}

// travelsBoxed reports whether code handles values of T as ref.Val.
func travelsBoxed[T any]() bool {
	switch any(*new(T)).(type) {
	case ref.Val, []int64:
		return true
	}
	return false
}

// calling runs a host function, unless an argument failed, and records its error or panic.
func calling[R any](f *Frame, call func() (R, error)) (out R) {
	if f.Err != nil {
		return out
	}
	f.calling = true
	defer f.catch()
	out, err := call()
	f.calling = false
	if err != nil {
		f.Err = err
	}
	return out
}

// catch records a panic of a host function. The flag is cheaper to check than recover.
func (f *Frame) catch() {
	if !f.calling {
		return
	}
	f.calling = false
	if p := recover(); p != nil {
		f.fail(fmt.Errorf("internal error: %v", p))
	}
}

// UnitRule derives the unit of a function's result from the units of its arguments.
type UnitRule int

// The unit rules. NoUnit is the default.
const (
	// NoUnit: the result is a plain number.
	NoUnit UnitRule = iota
	// SameUnit: the arguments must agree; the result has their unit.
	SameUnit
	// AgreeingArguments: the arguments must agree; the result is a plain number.
	AgreeingArguments
	// FirstUnit: the result has the unit of the first argument; the others are plain.
	FirstUnit
)

// Helpers are the functions of every rule environment. Integer helpers saturate; none wraps.
func Helpers() []*Function {
	return []*Function{
		{Name: "add", Doc: "a + b, saturating", Units: SameUnit,
			Overloads: []Overload{Func2(lang.SaturatingAdd)}},
		{Name: "mulDivFloor", Doc: "a × b ÷ c rounded down; the product may exceed 64 bits; division by zero is an error",
			Overloads: []Overload{Try3(func(a, b, c int64) (int64, error) { return orError(errDivide)(lang.MulDivFloor(a, b, c)) })}},
		{Name: "mulDivCeil", Doc: "a × b ÷ c rounded up",
			Overloads: []Overload{Try3(func(a, b, c int64) (int64, error) { return orError(errDivide)(lang.MulDivCeil(a, b, c)) })}},
		{Name: "ceilTo", Doc: "the smallest multiple of step that is at least v", Units: SameUnit,
			Overloads: []Overload{Try2(func(v, step int64) (int64, error) { return orError(errStep)(lang.CeilTo(v, step)) })}},
		{Name: "floorTo", Doc: "the largest multiple of step that is at most v", Units: SameUnit,
			Overloads: []Overload{Try2(func(v, step int64) (int64, error) { return orError(errStep)(lang.FloorTo(v, step)) })}},
		{Name: "min", Doc: "the smaller of two", Units: SameUnit,
			Overloads: []Overload{Func2(func(a, b int64) int64 { return min(a, b) }), Func2(math.Min)}},
		{Name: "max", Doc: "the larger of two", Units: SameUnit,
			Overloads: []Overload{Func2(func(a, b int64) int64 { return max(a, b) }), Func2(math.Max)}},
		{Name: "clamp", Doc: "v, at least low and at most high; high wins if they cross", Units: SameUnit,
			Overloads: []Overload{Func3(func(v, low, high int64) int64 { return min(max(v, low), high) })}},
		{Name: "atMost", Doc: "the smaller of v and most; a most of 0 or less is no bound", Units: SameUnit,
			Overloads: []Overload{Func2(lang.AtMost)}},
		{Name: "sum", Doc: "the sum of a list, saturating; 0 for an empty list", Units: SameUnit,
			Overloads: []Overload{Func1(sumList)}},
		{Name: "pow", Doc: "base to the power of exponent", Overloads: []Overload{Func2(math.Pow)}},
	}
}

var errStep = errors.New("the step must be greater than zero")

func orError(err error) func(int64, bool) (int64, error) {
	return func(v int64, ok bool) (int64, error) {
		if !ok {
			return 0, err
		}
		return v, nil
	}
}

func sumList(list []int64) (total int64) {
	for _, n := range list {
		total = lang.SaturatingAdd(total, n)
	}
	return total
}
