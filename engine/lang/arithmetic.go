package lang

import (
	"math"
	"math/bits"
)

// AtMost is min(v, most); most <= 0 means no limit.
func AtMost(v, most int64) int64 {
	if most > 0 {
		return min(v, most)
	}
	return v
}

// SaturatingAdd is a + b, saturating.
func SaturatingAdd(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// MulDivFloor is floor(a·b/c) with a 128-bit product, saturating; ok is false for c = 0.
func MulDivFloor(a, b, c int64) (v int64, ok bool) { return mulDiv(a, b, c, false) }

// MulDivCeil is ceil(a·b/c) with a 128-bit product, saturating; ok is false for c = 0.
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
	// Round away from zero: up for a positive ceiling, down for a negative floor.
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

// CeilTo rounds v up to a multiple of step, saturating; ok is false unless step > 0.
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

// FloorTo rounds v down to a multiple of step, saturating; ok is false unless step > 0.
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
