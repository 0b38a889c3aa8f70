package engine

import (
	"math"
	"math/bits"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// helpers are the functions of every rule environment. Integer helpers saturate at the ends of int64, none wraps.
func helpers() []cel.EnvOption {
	ints := []*cel.Type{cel.IntType, cel.IntType}
	three := []*cel.Type{cel.IntType, cel.IntType, cel.IntType}
	doubles := []*cel.Type{cel.DoubleType, cel.DoubleType}
	return []cel.EnvOption{
		cel.Function("add", cel.Overload("add_int", ints, cel.IntType, binary(SaturatingAdd)),
			cel.FunctionDocs("a + b, held at the ends of the integer range")),
		cel.Function("mulDivFloor", cel.Overload("mul_div_floor", three, cel.IntType, ternary(MulDivFloor)),
			cel.FunctionDocs("a × b ÷ c rounded down; the product may exceed 64 bits; division by zero is an error")),
		cel.Function("mulDivCeil", cel.Overload("mul_div_ceil", three, cel.IntType, ternary(MulDivCeil)),
			cel.FunctionDocs("a × b ÷ c rounded up")),
		cel.Function("ceilTo", cel.Overload("ceil_to", ints, cel.IntType, binaryErr(CeilTo)),
			cel.FunctionDocs("the smallest multiple of step that is at least v")),
		cel.Function("floorTo", cel.Overload("floor_to", ints, cel.IntType, binaryErr(FloorTo)),
			cel.FunctionDocs("the largest multiple of step that is at most v")),
		cel.Function("min", cel.Overload("min_int", ints, cel.IntType, binary(func(a, b int64) int64 { return min(a, b) })),
			cel.Overload("min_double", doubles, cel.DoubleType, binaryDouble(math.Min)),
			cel.FunctionDocs("the smaller of two")),
		cel.Function("max", cel.Overload("max_int", ints, cel.IntType, binary(func(a, b int64) int64 { return max(a, b) })),
			cel.Overload("max_double", doubles, cel.DoubleType, binaryDouble(math.Max)),
			cel.FunctionDocs("the larger of two")),
		cel.Function("clamp", cel.Overload("clamp_int", three, cel.IntType, ternary(func(v, lo, hi int64) (int64, bool) {
			return min(max(v, lo), hi), true
		})), cel.FunctionDocs("v held between low and high; high wins when they cross")),
		cel.Function("sum", cel.Overload("sum_int", []*cel.Type{cel.ListType(cel.IntType)}, cel.IntType, cel.UnaryBinding(sumList)),
			cel.FunctionDocs("the sum of a list, held at the ends of the integer range; 0 for an empty list")),
		cel.Function("pow", cel.Overload("pow_double", doubles, cel.DoubleType, binaryDouble(math.Pow)),
			cel.FunctionDocs("base to the power of exponent")),
	}
}

// SaturatingAdd is a + b, held at the ends of int64.
func SaturatingAdd(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// MulDivFloor is floor(a·b/c) with a 128-bit product, held at the ends of int64; ok is false for c = 0.
func MulDivFloor(a, b, c int64) (v int64, ok bool) { return mulDiv(a, b, c, false) }

// MulDivCeil is ceil(a·b/c) with a 128-bit product, held at the ends of int64; ok is false for c = 0.
func MulDivCeil(a, b, c int64) (v int64, ok bool) { return mulDiv(a, b, c, true) }

func mulDiv(a, b, c int64, up bool) (int64, bool) {
	if c == 0 {
		return 0, false
	}
	negative := (a < 0) != (b < 0) != (c < 0)
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi == 0 && lo == 0 {
		return 0, true
	}
	divisor := magnitude(c)
	if hi >= divisor {
		return saturated(negative), true
	}
	quotient, remainder := bits.Div64(hi, lo, divisor)
	// Rounding away from zero: up for positive results when ceiling, down for negative ones when flooring.
	if remainder != 0 && up != negative {
		if quotient == math.MaxUint64 {
			return saturated(negative), true
		}
		quotient++
	}
	if negative {
		if quotient > 1<<63 {
			return math.MinInt64, true
		}
		return -int64(quotient), true
	}
	if quotient > math.MaxInt64 {
		return math.MaxInt64, true
	}
	return int64(quotient), true
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func saturated(negative bool) int64 {
	if negative {
		return math.MinInt64
	}
	return math.MaxInt64
}

// CeilTo is the smallest multiple of step that is at least v, held at the ends of int64; ok is false unless step > 0.
func CeilTo(v, step int64) (int64, bool) {
	if step <= 0 {
		return 0, false
	}
	rest := v % step
	switch {
	case rest == 0:
		return v, true
	case rest < 0:
		return v - rest, true
	}
	return SaturatingAdd(v, step-rest), true
}

// FloorTo is the largest multiple of step that is at most v, held at the ends of int64; ok is false unless step > 0.
func FloorTo(v, step int64) (int64, bool) {
	if step <= 0 {
		return 0, false
	}
	rest := v % step
	switch {
	case rest == 0:
		return v, true
	case rest > 0:
		return v - rest, true
	}
	return SaturatingAdd(v, -(step + rest)), true
}

func sumList(v ref.Val) ref.Val {
	list := v.(traits.Lister)
	var total int64
	for it := list.Iterator(); it.HasNext() == types.True; {
		n, ok := it.Next().(types.Int)
		if !ok {
			return types.NewErr("sum needs a list of integers")
		}
		total = SaturatingAdd(total, int64(n))
	}
	return types.Int(total)
}

func binary(f func(a, b int64) int64) cel.OverloadOpt {
	return cel.BinaryBinding(func(a, b ref.Val) ref.Val { return types.Int(f(int64(a.(types.Int)), int64(b.(types.Int)))) })
}

func binaryErr(f func(a, b int64) (int64, bool)) cel.OverloadOpt {
	return cel.BinaryBinding(func(a, b ref.Val) ref.Val {
		v, ok := f(int64(a.(types.Int)), int64(b.(types.Int)))
		if !ok {
			return types.NewErr("the step must be greater than zero")
		}
		return types.Int(v)
	})
}

func binaryDouble(f func(a, b float64) float64) cel.OverloadOpt {
	return cel.BinaryBinding(func(a, b ref.Val) ref.Val {
		return types.Double(f(float64(a.(types.Double)), float64(b.(types.Double))))
	})
}

func ternary(f func(a, b, c int64) (int64, bool)) cel.OverloadOpt {
	return cel.FunctionBinding(func(args ...ref.Val) ref.Val {
		v, ok := f(int64(args[0].(types.Int)), int64(args[1].(types.Int)), int64(args[2].(types.Int)))
		if !ok {
			return types.NewErr("division by zero")
		}
		return types.Int(v)
	})
}
