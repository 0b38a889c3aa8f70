package bounds

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATotalIsSharedOutInProportion(t *testing.T) {
	const none = math.MaxInt64
	tests := []struct {
		name            string
		how             func(int64, []int64, []int64) ([]int64, error)
		total           int64
		amounts, bounds []int64
		want            []int64
	}{
		{"upstream's example of a minimum", ceil, 150, []int64{4, 21, 90}, []int64{none, none, none}, []int64{6, 28, 118}},
		{"upstream's example of a maximum", Lower, 80, []int64{4, 21, 90}, []int64{0, 0, 0}, []int64{2, 14, 62}},
		{"upstream's example of memory", floor, 4 << 30, []int64{1 << 30, 2 << 30}, []int64{none, none}, []int64{1431655765, 2863311530}},
		{"one takes no more", floor, 100, []int64{30, 20}, []int64{40, none}, []int64{40, 60}},
		{"holding one carries the next to its most", floor, 1000, []int64{100, 100, 100}, []int64{150, 400, none}, []int64{150, 400, 450}},
		{"one gives no more", Lower, 25, []int64{30, 20}, []int64{0, 15}, []int64{10, 15}},
		{"holding one carries the next to its least", Lower, 120, []int64{100, 100, 100}, []int64{70, 30, 0}, []int64{70, 30, 20}},
		{"all are at their most", ceil, 100, []int64{30, 20}, []int64{40, 20}, []int64{40, 20}},
		{"all are at their least", Lower, 10, []int64{30, 20}, []int64{20, 10}, []int64{20, 10}},
		{"more than its most already", ceil, 100, []int64{50, 20}, []int64{40, none}, []int64{50, 50}},
		{"less than its least already", Lower, 40, []int64{30, 20}, []int64{35, 0}, []int64{30, 10}},
		{"zeros stay", floor, 100, []int64{0, 20, 0}, []int64{none, none, none}, []int64{0, 100, 0}},
		{"only zeros", ceil, 100, []int64{0, 0}, []int64{none, none}, []int64{0, 0}},
		{"to nothing", Lower, 0, []int64{30, 20}, []int64{0, 0}, []int64{0, 0}},
		{"below nothing", Lower, -5, []int64{30, 20}, []int64{-10, 0}, []int64{0, 0}},
		{"negative amounts are none", ceil, 10, []int64{-30, 5}, []int64{none, none}, []int64{0, 10}},
		{"raised to less than the sum", ceil, 49, []int64{30, 20}, []int64{none, none}, []int64{30, 20}},
		{"lowered to more than the sum", Lower, 51, []int64{30, 20}, []int64{0, 0}, []int64{30, 20}},
		{"to the sum", Lower, 50, []int64{30, 20}, []int64{0, 0}, []int64{30, 20}},
		{"nobody", ceil, 10, nil, nil, []int64{}},
		{"products and sums beyond 64 bits", Lower, math.MaxInt64, []int64{math.MaxInt64, math.MaxInt64}, []int64{0, 0}, []int64{math.MaxInt64 / 2, math.MaxInt64 / 2}},
		{"a ratio beyond 64 bits", ceil, math.MaxInt64, []int64{1, 2}, []int64{none, none}, []int64{3074457345618258603, 6148914691236517205}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.how(tt.total, tt.amounts, tt.bounds)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	for _, how := range []func(int64, []int64, []int64) ([]int64, error){ceil, floor, Lower} {
		_, err := how(1, []int64{1}, nil)
		require.EqualError(t, err, "amounts and their bounds are lists of different lengths")
	}
}

func ceil(total int64, amounts, most []int64) ([]int64, error) {
	return Raise(total, amounts, most, true)
}

func floor(total int64, amounts, most []int64) ([]int64, error) {
	return Raise(total, amounts, most, false)
}

// FuzzShares checks the invariants, and the plain formula where no bound applies.
func FuzzShares(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, uint8(seed%9))
	}
	f.Fuzz(func(t *testing.T, seed uint64, count uint8) {
		random := rand.New(rand.NewPCG(seed, 1))
		// Small numbers hit their bounds and tie; large ones overflow.
		size := []int64{10, 1000, 1e14, math.MaxInt64 - 1}[seed%4]
		draw := func(n int) []int64 {
			out := make([]int64, n)
			for i := range out {
				out[i] = random.Int64N(size)
			}
			return out
		}
		amounts := draw(int(count % 9))
		total, bounds := random.Int64N(size), draw(len(amounts))
		sum := sumOf(amounts)
		free := slices.Repeat([]int64{math.MaxInt64}, len(amounts))
		zero := make([]int64, len(amounts))

		for _, up := range []bool{false, true} {
			got, _ := Raise(total, amounts, bounds, up)
			raised := big.NewInt(total).Cmp(sum) > 0
			for i, v := range got {
				require.GreaterOrEqual(t, v, amounts[i])
				require.LessOrEqual(t, v, max(amounts[i], bounds[i]))
				require.True(t, raised || v == amounts[i])
			}
			over := new(big.Int).Sub(sumOf(got), big.NewInt(total))
			if raised && up {
				require.Less(t, over.Cmp(big.NewInt(int64(max(1, len(got))))), 0, "rounding up adds less than 1 each")
			} else if raised {
				require.LessOrEqual(t, over.Sign(), 0)
			}
			if raised && anyFree(got, func(i int) bool {
				return amounts[i] > 0 && got[i] < bounds[i] && got[i] >= amounts[i] && bounds[i] > amounts[i]
			}) {
				require.Greater(t, over.Cmp(big.NewInt(-int64(len(got)))), 0, "while one could take more, no more than rounding is left")
			}
			plain, _ := Raise(total, amounts, free, up)
			requireFormula(t, total, sum, amounts, plain, up, raised)
			requireMonotone(t, amounts, bounds, got)
			again, _ := Raise(total, amounts, bounds, up)
			require.Equal(t, got, again)
			if total < math.MaxInt64 {
				more, _ := Raise(total+1, amounts, bounds, up)
				for i := range more {
					require.GreaterOrEqual(t, more[i], got[i], "more to share is less for none")
				}
			}
		}

		got, _ := Lower(total, amounts, bounds)
		lowered := big.NewInt(total).Cmp(sum) < 0
		least := new(big.Int)
		for i, v := range got {
			require.LessOrEqual(t, v, amounts[i])
			require.GreaterOrEqual(t, v, min(amounts[i], bounds[i]))
			require.True(t, lowered || v == amounts[i])
			least.Add(least, big.NewInt(min(amounts[i], bounds[i])))
		}
		if over := sumOf(got).Cmp(big.NewInt(total)); lowered && least.Cmp(big.NewInt(total)) <= 0 {
			require.LessOrEqual(t, over, 0, "never above the total where the bounds allow it")
		}
		plain, _ := Lower(total, amounts, zero)
		requireFormula(t, total, sum, amounts, plain, false, lowered)
		requireMonotone(t, amounts, bounds, got)
	})
}

func sumOf(list []int64) *big.Int {
	out := new(big.Int)
	for _, n := range list {
		out.Add(out, big.NewInt(n))
	}
	return out
}

func anyFree(list []int64, is func(int) bool) bool {
	for i := range list {
		if is(i) {
			return true
		}
	}
	return false
}

// requireFormula checks unbounded shares against amount × total ÷ sum.
func requireFormula(t *testing.T, total int64, sum *big.Int, amounts, got []int64, up, changed bool) {
	t.Helper()
	for i, a := range amounts {
		want := a
		if changed && a > 0 {
			want = quotient(product(a, big.NewInt(total)), sum, up)
		}
		require.Equal(t, want, got[i])
	}
}

// requireMonotone: with equal bounds, a larger amount never gets less.
func requireMonotone(t *testing.T, amounts, bounds, got []int64) {
	t.Helper()
	for i := range amounts {
		for j := range amounts {
			if bounds[i] == bounds[j] && amounts[i] <= amounts[j] {
				require.LessOrEqual(t, got[i], got[j])
			}
		}
	}
}
