package bounds

import (
	"errors"
	"math/big"
)

var errShares = errors.New("amounts and their bounds are lists of different lengths")

// Raise shares a total out in proportion to amounts, each to its most, or to its amount where that is more already; the others share
// the rest. Shares are rounded down, or up.
func Raise(total int64, amounts, most []int64, up bool) ([]int64, error) {
	if len(amounts) != len(most) {
		return nil, errShares
	}
	return raise(total, amounts, most, up), nil
}

// Lower is Raise in the other direction, with least as the floor and shares rounded down.
func Lower(total int64, amounts, least []int64) ([]int64, error) {
	if len(amounts) != len(least) {
		return nil, errShares
	}
	return lower(total, amounts, least), nil
}

func raise(total int64, amounts, most []int64, up bool) []int64 {
	held := make([]int64, len(amounts))
	for i, a := range amounts {
		held[i] = max(a, most[i])
	}
	return share(total, amounts, held, 1, up)
}

func lower(total int64, amounts, least []int64) []int64 {
	held := make([]int64, len(amounts))
	for i, a := range amounts {
		held[i] = max(0, min(a, least[i]))
	}
	return share(total, amounts, held, -1, false)
}

// share scales all amounts by one ratio, except those it would carry beyond held: above for
// direction 1, below for -1. Holding one pushes the ratio of the others further that way, so held
// amounts stay held and it ends after at most len(amounts) rounds. Numbers are exact; amounts below
// 0 count as 0.
func share(total int64, amounts, held []int64, direction int, up bool) []int64 {
	out := make([]int64, len(amounts))
	free := make([]bool, len(amounts)) // not held
	rest, base := big.NewInt(total), new(big.Int)
	for i, a := range amounts {
		out[i] = max(a, 0)
		free[i] = a > 0
		base.Add(base, big.NewInt(out[i]))
	}
	if rest.Cmp(base) != direction {
		return out
	}
	for again := true; again; {
		again = false
		ratioTop, ratioBase := new(big.Int).Set(rest), new(big.Int).Set(base) // of this round
		for i := range out {
			if !free[i] || product(amounts[i], ratioTop).Cmp(product(held[i], ratioBase)) != direction {
				continue
			}
			out[i], free[i], again = held[i], false, true
			rest.Sub(rest, big.NewInt(held[i]))
			base.Sub(base, big.NewInt(amounts[i]))
		}
	}
	for i := range out {
		if free[i] {
			out[i] = quotient(product(amounts[i], rest), base, up)
		}
	}
	return out
}

func product(a int64, b *big.Int) *big.Int { return new(big.Int).Mul(big.NewInt(a), b) }

// quotient is a ÷ b for non-negative numbers.
func quotient(a, b *big.Int, up bool) int64 {
	q, remainder := new(big.Int).QuoRem(a, b, new(big.Int))
	if up && remainder.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}
