package closure

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celvpa/celvpa/engine/lang"
)

// builder compiles a call from its compiled arguments; ok is false for unsupported types.
type builder func(args []node) (n node, ok bool)

// builders are the supported CEL operators and conversions, by overload ID. CEL evaluates the rest.
var builders = map[string]builder{
	overloads.LogicalAnd:  logical(false),
	overloads.LogicalOr:   logical(true),
	overloads.LogicalNot:  unary(func(a Code[bool]) Code[bool] { return func(f *Frame) bool { return !a(f) } }),
	overloads.Conditional: conditional,
	overloads.Equals:      equality(true),
	overloads.NotEquals:   equality(false),

	optionalIndex:    entryOf,
	OptionalHasValue: hasValue,
	OptionalOr:       orOptional,

	overloads.LessInt64:           binary(less[int64]),
	overloads.LessEqualsInt64:     binary(lessEqual[int64]),
	overloads.GreaterInt64:        binary(greater[int64]),
	overloads.GreaterEqualsInt64:  binary(greaterEqual[int64]),
	overloads.LessString:          binary(less[string]),
	overloads.LessEqualsString:    binary(lessEqual[string]),
	overloads.GreaterString:       binary(greater[string]),
	overloads.GreaterEqualsString: binary(greaterEqual[string]),
	overloads.LessDouble:          binary(ordered(func(x, y float64) bool { return x < y })),
	overloads.LessEqualsDouble:    binary(ordered(func(x, y float64) bool { return x <= y })),
	overloads.GreaterDouble:       binary(ordered(func(x, y float64) bool { return x > y })),
	overloads.GreaterEqualsDouble: binary(ordered(func(x, y float64) bool { return x >= y })),

	overloads.AddInt64:      binary(checked(addInts)),
	overloads.SubtractInt64: binary(checked(subtractInts)),
	overloads.MultiplyInt64: binary(checked(multiplyInts)),
	overloads.DivideInt64:   binary(checked(divideInts)),
	overloads.ModuloInt64:   binary(checked(moduloInts)),
	overloads.NegateInt64: unary(func(a Code[int64]) Code[int64] {
		return func(f *Frame) int64 {
			v := a(f)
			if v == math.MinInt64 {
				f.fail(errOverflow)
			}
			return -v
		}
	}),

	overloads.AddDouble: binary(func(a, b Code[float64]) Code[float64] {
		return func(f *Frame) float64 { return a(f) + b(f) }
	}),
	overloads.SubtractDouble: binary(func(a, b Code[float64]) Code[float64] {
		return func(f *Frame) float64 { return a(f) - b(f) }
	}),
	overloads.MultiplyDouble: binary(func(a, b Code[float64]) Code[float64] {
		return func(f *Frame) float64 { return a(f) * b(f) }
	}),
	overloads.DivideDouble: binary(func(a, b Code[float64]) Code[float64] {
		return func(f *Frame) float64 { return a(f) / b(f) }
	}),
	overloads.NegateDouble: unary(func(a Code[float64]) Code[float64] { return func(f *Frame) float64 { return -a(f) } }),

	overloads.AddString:        binary(addTexts),
	overloads.AddList:          addLists,
	overloads.ContainsString:   binary(inText(strings.Contains)),
	overloads.StartsWithString: binary(inText(strings.HasPrefix)),
	overloads.EndsWithString:   binary(inText(strings.HasSuffix)),
	overloads.SizeString:       unary(sizeOfText),
	overloads.SizeStringInst:   unary(sizeOfText),
	overloads.SizeList:         sizeOfList,
	overloads.SizeListInst:     sizeOfList,

	overloads.IntToDouble: unary(func(a Code[int64]) Code[float64] {
		return func(f *Frame) float64 { return float64(a(f)) }
	}),
	overloads.DoubleToInt: unary(func(a Code[float64]) Code[int64] {
		return func(f *Frame) int64 {
			v := a(f)
			if math.IsNaN(v) || v <= math.MinInt64 || v >= math.MaxInt64 {
				f.fail(errOverflow)
				return 0
			}
			return int64(v)
		}
	}),
	overloads.IntToInt:       same,
	overloads.DoubleToDouble: same,
	overloads.BoolToBool:     same,
	overloads.StringToString: same,
	overloads.StringToInt:    convert[string, int64](types.IntType),
	overloads.StringToDouble: convert[string, float64](types.DoubleType),
	overloads.StringToBool:   convert[string, bool](types.BoolType),
	overloads.IntToString:    convert[int64, string](types.StringType),
	overloads.DoubleToString: convert[float64, string](types.StringType),
	overloads.BoolToString:   convert[bool, string](types.StringType),
}

func unary[A, R any](build func(Code[A]) Code[R]) builder {
	return func(args []node) (node, bool) {
		a, ok := Typed[A](args[0])
		if !ok {
			return node{}, false
		}
		return fold(build(a), args...), true
	}
}

func binary[A, R any](build func(a, b Code[A]) Code[R]) builder {
	return func(args []node) (node, bool) {
		a, okA := Typed[A](args[0])
		b, okB := Typed[A](args[1])
		if !okA || !okB {
			return node{}, false
		}
		return fold(build(a, b), args...), true
	}
}

func same(args []node) (node, bool) { return args[0], true }

func less[T cmp.Ordered](a, b Code[T]) Code[bool] { return func(f *Frame) bool { return a(f) < b(f) } }

func lessEqual[T cmp.Ordered](a, b Code[T]) Code[bool] {
	return func(f *Frame) bool { return a(f) <= b(f) }
}

func greater[T cmp.Ordered](a, b Code[T]) Code[bool] {
	return func(f *Frame) bool { return a(f) > b(f) }
}

func greaterEqual[T cmp.Ordered](a, b Code[T]) Code[bool] {
	return func(f *Frame) bool { return a(f) >= b(f) }
}

// ordered compares doubles and fails on NaN, which has no order.
func ordered(holds func(x, y float64) bool) func(a, b Code[float64]) Code[bool] {
	return func(a, b Code[float64]) Code[bool] {
		return func(f *Frame) bool {
			x, y := a(f), b(f)
			if math.IsNaN(x) || math.IsNaN(y) {
				f.fail(errNaN)
			}
			return holds(x, y)
		}
	}
}

func checked(op func(x, y int64) (int64, error)) func(a, b Code[int64]) Code[int64] {
	return func(a, b Code[int64]) Code[int64] {
		return func(f *Frame) int64 {
			v, err := op(a(f), b(f))
			if err != nil {
				f.fail(err)
			}
			return v
		}
	}
}

func addInts(x, y int64) (int64, error) {
	if (y > 0 && x > math.MaxInt64-y) || (y < 0 && x < math.MinInt64-y) {
		return 0, errOverflow
	}
	return x + y, nil
}

func subtractInts(x, y int64) (int64, error) {
	if (y < 0 && x > math.MaxInt64+y) || (y > 0 && x < math.MinInt64+y) {
		return 0, errOverflow
	}
	return x - y, nil
}

func multiplyInts(x, y int64) (int64, error) {
	v := x * y
	if x != 0 && (v/x != y || (x == -1 && y == math.MinInt64)) {
		return 0, errOverflow
	}
	return v, nil
}

func divideInts(x, y int64) (int64, error) {
	switch {
	case y == 0:
		return 0, errDivide
	case x == math.MinInt64 && y == -1:
		return 0, errOverflow
	}
	return x / y, nil
}

func moduloInts(x, y int64) (int64, error) {
	switch {
	case y == 0:
		return 0, errModulus
	case x == math.MinInt64 && y == -1:
		return 0, errOverflow
	}
	return x % y, nil
}

// equality compiles == and != for operands of one type; NaN equals nothing.
func equality(want bool) builder {
	return func(args []node) (node, bool) {
		switch args[0].Run.(type) {
		case Code[int64]:
			return equal[int64](args, want)
		case Code[float64]:
			return equal[float64](args, want)
		case Code[bool]:
			return equal[bool](args, want)
		case Code[string]:
			return equal[string](args, want)
		}
		a, b := Boxed(args[0]), Boxed(args[1])
		return fold(func(f *Frame) bool {
			x, y := a(f), b(f)
			return f.Err == nil && f.compared(x, y) && (types.Equal(x, y) == types.True) == want
		}, args...), true
	}
}

func equal[T comparable](args []node, want bool) (node, bool) {
	a, okA := Typed[T](args[0])
	b, okB := Typed[T](args[1])
	if !okA || !okB {
		return node{}, false
	}
	return fold(func(f *Frame) bool { return (a(f) == b(f)) == want }, args...), true
}

// inList compiles membership. Elements of another type than the value can equal it all the same, as 1.0 equals 1, so
// that Go values are compared only where all elements are of the value's type.
func inList(args []node, sameType bool) (node, bool) {
	list, ok := args[1].Run.(BoxedCode)
	if !ok {
		return node{}, false
	}
	if sameType {
		switch c := args[0].Run.(type) {
		case Code[string]:
			return fold(among(c, list, equalsElement), args...), true
		case Code[int64]:
			return fold(among(c, list, equalsElement), args...), true
		}
	}
	return fold(among(Boxed(args[0]), list, func(f *Frame, x, e ref.Val) bool {
		return f.compared(x, e) && types.Equal(x, e) == types.True
	}), args...), true
}

func equalsElement[T comparable](_ *Frame, x T, e ref.Val) bool {
	y, is := lang.Unbox[T](e)
	return is && x == y
}

func among[T any](value Code[T], list BoxedCode, equal func(f *Frame, x T, e ref.Val) bool) Code[bool] {
	return func(f *Frame) bool {
		x, v := value(f), list(f)
		if f.Err != nil {
			return false
		}
		all, ok := lang.Values(v)
		if !ok {
			f.fail(errNoOverload)
			return false
		}
		return f.spend(len(all)) && slices.ContainsFunc(all, func(e ref.Val) bool { return equal(f, x, e) })
	}
}

func sizeOfText(a Code[string]) Code[int64] {
	return func(f *Frame) int64 { return int64(utf8.RuneCountInString(a(f))) }
}

func sizeOfList(args []node) (node, bool) {
	list, ok := args[0].Run.(BoxedCode)
	if !ok {
		return node{}, false
	}
	c := Code[int64](func(f *Frame) int64 {
		v := list(f)
		if f.Err != nil {
			return 0
		}
		l, ok := v.(traits.Sizer)
		if !ok {
			f.fail(errNoOverload)
			return 0
		}
		n, _ := lang.Unbox[int64](l.Size())
		return n
	})
	return fold(c, args...), true
}

func inText(holds func(text, part string) bool) func(a, b Code[string]) Code[bool] {
	return func(a, b Code[string]) Code[bool] {
		return func(f *Frame) bool { return holds(a(f), b(f)) }
	}
}

// convert delegates the rarer conversions to CEL's types.
func convert[A, R any](to ref.Type) builder {
	return unary(func(a Code[A]) Code[R] {
		return func(f *Frame) (out R) {
			v := a(f)
			if f.Err != nil {
				return out
			}
			converted := lang.Box(v).ConvertToType(to)
			out, ok := lang.Unbox[R](converted)
			if !ok {
				f.fail(converted.(*types.Err))
			}
			return out
		}
	})
}
