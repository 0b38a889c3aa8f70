package engine_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/lang"
)

func TestIntegerHelpersSaturate(t *testing.T) {
	require.EqualValues(t, math.MaxInt64, lang.SaturatingAdd(math.MaxInt64, 1))
	require.EqualValues(t, math.MinInt64, lang.SaturatingAdd(math.MinInt64, -1))
	v, ok := lang.MulDivFloor(math.MaxInt64, math.MaxInt64, 1)
	require.True(t, ok)
	require.EqualValues(t, math.MaxInt64, v)
	v, _ = lang.MulDivFloor(math.MinInt64, 1, 1)
	require.EqualValues(t, math.MinInt64, v)
	v, _ = lang.MulDivFloor(math.MinInt64, -1, 1)
	require.EqualValues(t, math.MaxInt64, v)
	_, ok = lang.MulDivFloor(1, 1, 0)
	require.False(t, ok)
	v, _ = lang.CeilTo(math.MaxInt64, 2)
	require.EqualValues(t, math.MaxInt64, v)
	_, ok = lang.CeilTo(1, 0)
	require.False(t, ok)
	_, ok = lang.FloorTo(1, -1)
	require.False(t, ok)
}

// exact computes a·b/c, rounded and saturated, with big integers.
func exact(a, b, c int64, up bool) int64 {
	n := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	q, m := new(big.Int).DivMod(n, big.NewInt(c), new(big.Int)) // Euclidean: m is never negative
	if c < 0 && m.Sign() != 0 {
		q.Sub(q, big.NewInt(1)) // Euclidean division rounds up for negative divisors
	}
	if up && m.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	switch {
	case q.Cmp(big.NewInt(math.MaxInt64)) > 0:
		return math.MaxInt64
	case q.Cmp(big.NewInt(math.MinInt64)) < 0:
		return math.MinInt64
	}
	return q.Int64()
}

func FuzzIntegerHelpersEqualBigIntegers(f *testing.F) {
	edges := []int64{0, 1, -1, 3, -7, 1000, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1}
	for _, a := range edges {
		for _, b := range edges {
			for _, c := range edges {
				f.Add(a, b, c)
			}
		}
	}
	f.Fuzz(func(t *testing.T, a, b, c int64) {
		sum := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
		if sum.IsInt64() {
			require.Equal(t, sum.Int64(), lang.SaturatingAdd(a, b))
		} else {
			require.Contains(t, []int64{math.MaxInt64, math.MinInt64}, lang.SaturatingAdd(a, b))
			require.Equal(t, sum.Sign() > 0, lang.SaturatingAdd(a, b) > 0)
		}
		if c == 0 {
			return
		}
		floor, ok := lang.MulDivFloor(a, b, c)
		require.True(t, ok)
		require.Equal(t, exact(a, b, c, false), floor, "floor(%d × %d / %d)", a, b, c)
		ceil, ok := lang.MulDivCeil(a, b, c)
		require.True(t, ok)
		require.Equal(t, exact(a, b, c, true), ceil, "ceil(%d × %d / %d)", a, b, c)
		if c > 0 {
			up, _ := lang.CeilTo(a, c)
			down, _ := lang.FloorTo(a, c)
			require.GreaterOrEqual(t, up, a)
			require.LessOrEqual(t, down, a)
			if up != math.MaxInt64 {
				require.Zero(t, up%c)
			}
			if down != math.MinInt64 {
				require.Zero(t, down%c)
			}
		}
	})
}
