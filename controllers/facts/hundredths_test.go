package facts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Upstream prints two decimals and parses the text as a quantity (UPSTREAM.md §2.14).
func TestHundredthsAreThoseThatArePrinted(t *testing.T) {
	units := []struct {
		suffix string
		size   int64
	}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}}
	random := rand.New(rand.NewPCG(1, 2))
	check := func(amount int64, suffix string, unit int64) {
		text := fmt.Sprintf("%.2f", float64(amount)/float64(unit)) + suffix
		q := resource.MustParse(text)
		got, err := toHundredths(amount, unit)
		require.NoError(t, err)
		require.Equal(t, q.Value(), got, "%d is printed as %s", amount, text)
	}
	for _, u := range units {
		for range 20000 {
			amount := u.size + random.Int64N(min(maxAmount, 2000*u.size)-u.size)
			check(amount, u.suffix, u.size)
		}
		for n := range int64(64) { // eighths include exact halves of hundredths
			for _, near := range []int64{-1, 0, 1} {
				check(u.size+n*u.size/8+near, u.suffix, u.size)
			}
		}
		check(maxAmount, u.suffix, u.size)
	}
}

func TestHundredthsNeverWrap(t *testing.T) {
	for _, amount := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
		for _, unit := range []int64{1, 3, 100, 1 << 40, math.MaxInt64} {
			got, err := toHundredths(amount, unit)
			require.NoError(t, err)
			require.InDelta(t, float64(amount), float64(got), float64(unit)/200+1+math.Abs(float64(amount))*1e-15, "%d of %d", amount, unit)
		}
	}
	_, err := toHundredths(1, 0)
	require.EqualError(t, err, "the unit must be greater than zero")
	_, err = toHundredths(1, -1)
	require.Error(t, err)
}
