package closure

import (
	"errors"
	"math"

	"github.com/celvpa/celvpa/engine/lang"
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
