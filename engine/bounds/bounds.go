// Package bounds chooses amounts that keep bounds: each as near to what is wanted as they allow, and what together must not
// exceed a sum, or must reach one, shared in proportion among those that still have room. It knows numbers, not what they mean.
// All arithmetic is exact, in integers; sums saturate.
package bounds

import (
	"math"

	"github.com/celvpa/celvpa/engine/lang"
)

// Of says what a bound is about.
type Of int

const (
	// Amount is what is chosen.
	Amount Of = iota
	// Follower is what goes with it, by a line.
	Follower
	// Ratio is the follower as a part of the amount, in thousandths. It has a most only.
	Ratio
)

// Bound is a least or a most.
type Bound struct {
	Of    Of
	Least bool // otherwise it is the most
	Value int64
	// Level is its precedence: where bounds contradict, that of the higher level holds, and of one level the later one.
	Level int
	ID    int // for the caller, from 0
}

// Line makes a follower: amount × Num ÷ Den + Extra, rounded down. Num and Den are positive.
type Line struct{ Num, Den, Extra int64 }

// At is the follower of an amount.
func (l *Line) At(amount int64) int64 {
	v, _ := lang.MulDivFloor(amount, l.Num, l.Den)
	return lang.SaturatingAdd(v, l.Extra)
}

// Item is one amount to choose.
type Item struct {
	Want int64
	// Now is what the item has. Where no amounts near to what is wanted fit together, those nearer to Now may.
	Now int64
	// Line makes the follower. Without one it is Fixed, if there is one at all.
	Line  *Line
	Fixed *int64
	// Yields: the line gives way before those of other items do.
	Yields bool
	// Rounded: Now and its follower, which the line is made of, were rounded down. An amount that only the rounding
	// distinguishes from Now is Now.
	Rounded bool
	// Bounds are ordered by level.
	Bounds []Bound
}

// Problem is what to choose. Totals bound sums over all items, those of followers over items that have one.
type Problem struct {
	Items  []Item
	Totals []Bound
	// What others have counts for totals of the ratio.
	BesideAmount, BesideFollower int64
}

// Choice is what an item gets.
type Choice struct {
	Amount   int64
	Follower int64 // 0 without one
	// By is the ID of the bound that keeps the amount from what is wanted, FollowerBy of that which keeps the follower from
	// its line; -1 = none does.
	By, FollowerBy int
}

const none = -1

// Solve chooses an amount for each item. It returns ok = false if it finds no amounts that keep all totals; those are as
// the bounds of each item alone make them.
func (p *Problem) Solve() (out []Choice, ok bool) {
	s := &state{Problem: p, at: make([]Choice, len(p.Items)), intervals: make([]interval, len(p.Items)), wanted: make([]int64, len(p.Items))}
	s.scale()
	s.choose(math.MinInt)
	if len(p.Totals) == 0 {
		return s.at, true
	}
	violated := s.violated()
	if violated == none {
		return s.at, true
	}
	alone := clone(s.at)
	if s.share() {
		return s.at, true
	}
	s.at = clone(alone)
	s.relax(p.Totals[violated].Level) // bounds that yield to the totals do so no further than those ask for
	if s.share() {
		return s.at, true
	}
	s.choose(p.Totals[violated].Level)
	if s.share() {
		return s.at, true
	}
	s.choose(p.Totals[violated].Level)
	if s.towardsNow(violated) {
		return s.at, true
	}
	for _, all := range []bool{false, true} {
		if s.giveUpLines(p.Totals[violated].Level, all) {
			return s.at, true
		}
	}
	return alone, false
}

func clone(list []Choice) []Choice { return append([]Choice(nil), list...) }

// state is a solution in the making.
type state struct {
	*Problem
	at        []Choice
	intervals []interval // of the amounts
	wanted    []int64    // after the totals have scaled all that is wanted
	scaledBy  int        // the total that did
}

// interval is what an item's own bounds leave of it.
type interval struct {
	least, most     int64
	leastBy, mostBy int
}

func (v interval) clamp(amount int64) (int64, int) {
	switch {
	case amount < v.least:
		return v.least, v.leastBy
	case amount > v.most:
		return v.most, v.mostBy
	}
	return amount, none
}

// choose chooses for each item alone, by its bounds from a level on.
func (s *state) choose(level int) {
	for i := range s.Items {
		it := &s.Items[i]
		s.intervals[i] = it.interval(level)
		amount, by := s.intervals[i].clamp(s.wanted[i])
		switch {
		case amount == it.Want:
			by = none
		case by == none:
			by = s.scaledBy
		}
		s.at[i] = it.choice(amount, by)
	}
}

// relax leaves out the bounds below a level, but keeps what has been chosen, as far as the others allow.
func (s *state) relax(level int) {
	for i := range s.Items {
		it := &s.Items[i]
		s.intervals[i] = it.interval(level)
		if amount, by := s.intervals[i].clamp(s.at[i].Amount); amount != s.at[i].Amount {
			s.at[i] = it.choice(amount, by)
		}
	}
}

// choice is an amount with the follower that belongs to it.
func (it *Item) choice(amount int64, by int) Choice {
	c := Choice{Amount: amount, By: by, FollowerBy: none}
	switch {
	case it.Line != nil:
		c.Follower, c.FollowerBy = it.follower(amount)
	case it.Fixed != nil:
		c.Follower = *it.Fixed
	}
	return c
}

// follower is what the line gives, within the bounds of the follower and of the ratio, and not below the amount.
func (it *Item) follower(amount int64) (value int64, by int) {
	value, by = it.Line.At(amount), none
	for _, b := range it.Bounds {
		bound := b.Value
		switch {
		case b.Of == Amount:
			continue
		case b.Of == Ratio:
			bound, _ = lang.MulDivFloor(amount, b.Value, 1000)
		}
		if b.Least && value < bound || !b.Least && value > bound {
			value, by = bound, b.ID
		}
	}
	return max(value, amount), by
}

// interval is what bounds from a level on leave of an item's amount. Bounds of the follower count by the line. Where a bound of a
// higher level contradicts that, the line gives way, not the amount.
func (it *Item) interval(level int) interval {
	if v, ok := it.within(level, true); ok {
		return v
	}
	v, _ := it.within(level, false)
	return v
}

func (it *Item) within(level int, byLine bool) (v interval, ok bool) {
	v, ok = interval{0, math.MaxInt64, none, none}, true
	if it.Line != nil {
		v.least = min(it.Want, 1) // a follower of nothing would be none
	}
	leastByLine, mostByLine := false, false
	for _, b := range it.Bounds {
		bound, least, converted, applies := it.ofAmount(b, byLine)
		if !applies || b.Level < level {
			continue
		}
		ok = ok && !(converted && !least && bound < 1) // the follower is too low even for the least amount
		if least && bound > v.least {
			v.least, v.leastBy, leastByLine = bound, b.ID, converted
		}
		if !least && bound < v.most {
			v.most, v.mostBy, mostByLine = bound, b.ID, converted
		}
		if v.least <= v.most {
			continue
		}
		if least {
			ok = ok && !mostByLine
			v.most, v.mostBy = v.least, b.ID
		} else {
			ok = ok && !leastByLine
			v.least, v.leastBy = v.most, b.ID
		}
	}
	return v, ok
}

// ofAmount is a bound as one of the amount, a least or a most: converted if that is so by the line only.
func (it *Item) ofAmount(b Bound, byLine bool) (bound int64, least, converted, applies bool) {
	switch {
	case b.Of == Amount:
		return b.Value, b.Least, false, true
	case b.Of == Ratio && it.Line == nil && it.Fixed != nil: // the follower stays
		bound, _ = lang.MulDivCeil(*it.Fixed, 1000, b.Value)
		return bound, true, false, true
	case b.Of == Ratio || it.Line == nil:
		return 0, false, false, false
	case byLine && b.Least:
		return it.lowest(b.Value), true, true, true
	case byLine:
		return it.highest(b.Value), false, true, true
	}
	return b.Value, false, false, !b.Least // an amount is no more than its follower
}

// highest is the amount at which the follower reaches a value from below.
func (it *Item) highest(follower int64) int64 {
	l := it.Line
	v, _ := lang.MulDivFloor(follower-l.Extra, l.Den, l.Num)
	if it.Rounded && it.Now <= v {
		if least, _ := lang.MulDivFloor(follower, l.Den, lang.SaturatingAdd(l.Num, 1)); it.Now >= least {
			v = it.Now
		}
	}
	if ratio := it.ratio(); ratio > 0 {
		least, _ := lang.MulDivFloor(follower, 1000, ratio)
		v = max(v, least)
	}
	return v
}

// lowest is the least amount at which the follower reaches a value.
func (it *Item) lowest(follower int64) int64 {
	l := it.Line
	v, _ := lang.MulDivCeil(follower-l.Extra, l.Den, l.Num)
	if ratio := it.ratio(); ratio > 0 {
		least, _ := lang.MulDivCeil(follower, 1000, ratio)
		v = max(v, least)
	}
	return max(v, 0)
}

// ratio is the most that the follower may be of the amount; 0 = no bound.
func (it *Item) ratio() (least int64) {
	for _, b := range it.Bounds {
		if b.Of == Ratio && (least == 0 || b.Value < least) {
			least = b.Value
		}
	}
	return least
}
