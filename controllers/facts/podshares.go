package facts

import (
	"errors"
	"math/big"
	"slices"

	"github.com/celvpa/celvpa/engine/registry"
)

// addPodFunctions declares how to divide a total among containers. Rules choose the bounds.
func addPodFunctions(r *registry.Registry) {
	const proportion = "total shared out in proportion to amounts, a list of as many; "
	r.AddFunction("raiseFloor", registry.SameUnit,
		proportion+"each rounded down and none above its most, or above its amount where that is more already; what such a one cannot take goes to the others in proportion. An amount of 0 stays 0; a total below the sum of the amounts changes nothing",
		registry.Try3(func(total int64, amounts, most []int64) ([]int64, error) { return raise(total, amounts, most, false) }))
	r.AddFunction("raiseCeil", registry.SameUnit,
		"raiseFloor rounded up: together they may exceed total, each by less than 1",
		registry.Try3(func(total int64, amounts, most []int64) ([]int64, error) { return raise(total, amounts, most, true) }))
	r.AddFunction("lowerFloor", registry.SameUnit,
		proportion+"each rounded down and none below its least, or below its amount where that is less already; what such a one cannot give is taken from the others in proportion. A total above the sum of the amounts changes nothing",
		registry.Try3(lower))
	r.AddFunction("largest", registry.SameUnit, "the largest of a list; 0 for an empty one",
		registry.Func1(func(list []int64) int64 {
			if len(list) == 0 {
				return 0
			}
			return slices.Max(list)
		}))
}

var errShares = errors.New("amounts and their bounds are lists of different lengths")

// raise scales amounts up to a total in proportion, each to its most; the others share the rest.
func raise(total int64, amounts, most []int64, up bool) ([]int64, error) {
	if len(amounts) != len(most) {
		return nil, errShares
	}
	held := make([]int64, len(amounts))
	for i, a := range amounts {
		held[i] = max(a, most[i])
	}
	return share(total, amounts, held, 1, up), nil
}

// lower is raise in the other direction, with least as the floor.
func lower(total int64, amounts, least []int64) ([]int64, error) {
	if len(amounts) != len(least) {
		return nil, errShares
	}
	held := make([]int64, len(amounts))
	for i, a := range amounts {
		held[i] = max(0, min(a, least[i]))
	}
	return share(total, amounts, held, -1, false), nil
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
