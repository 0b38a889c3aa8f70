package bounds

import (
	"math"
	"slices"

	"github.com/celvpa/celvpa/engine/lang"
)

// rounds is how often sums are shared out: what meets one total may break another.
const rounds = 8

// sums are those that totals bound. tooLarge: one is more than fits.
type sums struct {
	amount, follower, fixed int64
	tooLarge                bool
}

func (s *state) sums() (out sums) {
	for i := range s.Items {
		at := &s.at[i]
		out.tooLarge = out.tooLarge || at.Amount > math.MaxInt64-out.amount || at.Follower > math.MaxInt64-out.follower
		out.amount = lang.SaturatingAdd(out.amount, at.Amount)
		out.follower = lang.SaturatingAdd(out.follower, at.Follower)
		if s.Items[i].Line == nil {
			out.fixed = lang.SaturatingAdd(out.fixed, at.Follower)
		}
	}
	return out
}

// excess is by how much the sums break a total; 0 = they keep it.
func (s *state) excess(t Bound, of sums) int64 {
	value, bound := of.amount, t.Value
	switch t.Of {
	case Follower:
		value = of.follower
	case Ratio:
		value = lang.SaturatingAdd(of.follower, s.BesideFollower)
		bound, _ = lang.MulDivFloor(lang.SaturatingAdd(of.amount, s.BesideAmount), t.Value, 1000)
	}
	switch {
	case t.Least:
		return max(0, bound-value)
	case of.tooLarge && value == math.MaxInt64:
		return max(1, value-max(bound, 0))
	}
	return max(0, lang.SaturatingAdd(value, -max(bound, -math.MaxInt64)))
}

// violated is the index of the first total that the sums break; none = they keep all.
func (s *state) violated() int {
	of := s.sums()
	return slices.IndexFunc(s.Totals, func(t Bound) bool { return s.excess(t, of) > 0 })
}

// total is the tightest bound of a sum.
func (s *state) total(of Of, least bool) (value int64, id int) {
	value, id = math.MaxInt64, none
	if least {
		value = 0
	}
	for _, t := range s.Totals {
		if t.Of == of && t.Least == least && (least && t.Value > value || !least && t.Value < value) {
			value, id = t.Value, t.ID
		}
	}
	return value, id
}

// scale multiplies all that is wanted by one factor, for the total that asks for the most of it, before the bounds of single items
// count.
func (s *state) scale() {
	s.scaledBy = none
	var amount, follower, fixed, rounding int64 // fixed does not depend on amounts
	for i := range s.Items {
		it := &s.Items[i]
		s.wanted[i] = it.Want
		amount = lang.SaturatingAdd(amount, it.Want)
		switch {
		case it.Line == nil && it.Fixed != nil:
			fixed = lang.SaturatingAdd(fixed, *it.Fixed)
			follower = lang.SaturatingAdd(follower, *it.Fixed)
		case it.Line != nil && it.Want > 0:
			fixed = lang.SaturatingAdd(fixed, it.Line.Extra)
			follower = lang.SaturatingAdd(follower, it.Line.At(it.Want))
			if it.Rounded {
				more, _ := lang.MulDivCeil(it.Want, 1, it.Line.Den)
				rounding = lang.SaturatingAdd(rounding, more)
			}
		}
	}
	least, leastBy := s.total(Amount, true)
	leastFollower, leastFollowerBy := s.total(Follower, true)
	most, mostBy := s.total(Follower, false)
	switch {
	case least > amount && amount > 0:
		for i := range s.wanted {
			s.wanted[i], _ = lang.MulDivCeil(s.wanted[i], least, amount)
		}
		s.scaledBy = leastBy
	case leastFollower > follower && follower > fixed:
		s.scaleFollowed(leastFollower-fixed, follower-fixed, rounding)
		s.scaledBy = leastFollowerBy
	case most < follower && most > fixed && follower > fixed:
		left, _ := lang.MulDivFloor(most-fixed, amount, follower-fixed)
		yields := slices.ContainsFunc(s.Items, func(it Item) bool { return it.Yields && it.Line != nil })
		if yields && (left < least || left == 0 || s.ratioBroken(amount, follower)) {
			return // lines give way instead
		}
		s.scaleFollowed(most-fixed, follower-fixed, rounding)
		s.scaledBy = mostBy
	}
}

func (s *state) ratioBroken(amount, follower int64) bool {
	return slices.ContainsFunc(s.Totals, func(t Bound) bool {
		return t.Of == Ratio && s.excess(t, sums{amount: amount, follower: follower}) > 0
	})
}

// scaleFollowed multiplies amounts by to ÷ from, but for those whose followers stay. One stays as it is where the rounding of
// followers, by which from may be too low, makes the difference.
func (s *state) scaleFollowed(to, from, rounding int64) {
	for i := range s.Items {
		it := &s.Items[i]
		if it.Fixed != nil && it.Line == nil {
			continue
		}
		exact, _ := lang.MulDivFloor(it.Want, to, from)
		if rounded, _ := lang.MulDivFloor(it.Want, to, lang.SaturatingAdd(from, rounding)); rounding > 0 && it.Now > 0 && it.Now <= exact && it.Now >= rounded {
			exact = it.Now
		}
		s.wanted[i] = exact
	}
}

// share meets the totals one after the other: what one item cannot take or give, the others do in proportion. It reports whether
// all totals hold then. It gives up where one asks for more and another for less: items would be far from what is wanted.
func (s *state) share() bool {
	raised, lowered := false, false
	for range rounds {
		of, before := s.sums(), clone(s.at)
		for _, t := range s.Totals {
			if s.excess(t, of) == 0 {
				continue
			}
			more := t.Least || t.Of == Ratio
			raised, lowered = raised || more, lowered || !more
			if raised && lowered {
				return false
			}
			s.meet(t)
			of = s.sums()
		}
		if slices.Equal(before, s.at) {
			break
		}
	}
	return s.violated() == none
}

// meet shares one total out.
func (s *state) meet(t Bound) {
	amounts, bound := make([]int64, len(s.Items)), make([]int64, len(s.Items))
	total := t.Value
	if t.Of == Ratio { // more of the amounts, where followers stay
		of := s.sums()
		least, _ := lang.MulDivCeil(lang.SaturatingAdd(of.follower, s.BesideFollower), 1000, t.Value)
		t, total = Bound{Of: Amount, Least: true, ID: t.ID}, least-s.BesideAmount
	} else if t.Of == Follower {
		total -= s.sums().fixed
	}
	for i := range s.Items {
		it, v := &s.Items[i], s.intervals[i]
		limit := v.least
		if t.Least {
			limit = v.most
		}
		amounts[i], bound[i] = s.at[i].Amount, limit
		if t.Of == Follower {
			if it.Line == nil {
				amounts[i], bound[i] = 0, 0
				continue
			}
			amounts[i] = s.at[i].Follower
			bound[i], _ = it.follower(max(limit, 1))
		}
	}
	var shares []int64
	if t.Least {
		shares = raise(total, amounts, bound, true)
	} else {
		shares = lower(max(total, 0), amounts, bound)
	}
	for i := range s.Items {
		it := &s.Items[i]
		amount := shares[i]
		switch {
		case shares[i] == amounts[i]:
			continue
		case t.Of == Follower && t.Least:
			amount = min(it.lowest(shares[i]), s.intervals[i].most)
		case t.Of == Follower:
			amount = max(min(it.highest(shares[i]), s.at[i].Amount), s.intervals[i].least)
		}
		s.at[i] = it.choice(amount, t.ID)
	}
}

// parts is how finely the way from what is wanted to what is now is divided.
const parts = 1 << 20

// towardsNow goes from what the items alone would get as far towards what they have now as needed: all by the same part of their
// way, but those that no total asks to.
func (s *state) towardsNow(violated int) bool {
	from := clone(s.at)
	move := func(part int64) bool {
		for i := range s.Items {
			it, target := &s.Items[i], s.Items[i].Now
			step, _ := lang.MulDivFloor(target-from[i].Amount, part, parts)
			amount, _ := s.intervals[i].clamp(from[i].Amount + step)
			by := s.Totals[violated].ID
			if amount == from[i].Amount {
				by = from[i].By
			}
			s.at[i] = it.choice(amount, by)
		}
		return s.violated() == none
	}
	if !move(parts) {
		return false
	}
	low, high := int64(0), int64(parts) // high is far enough
	for high-low > 1 {
		if middle := (low + high) / 2; move(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	move(high)
	for i, moved := range s.at { // those whose step no total asks for take it back
		if s.at[i] = from[i]; s.violated() != none {
			s.at[i] = moved
		}
	}
	return true
}

// giveUpLines keeps amounts near to what is wanted and brings followers nearer to them than their lines do: each gives up the same
// part of what it has above its amount. All lines give way, or those only that yield.
func (s *state) giveUpLines(level int, all bool) bool {
	for i := range s.Items {
		it := &s.Items[i]
		s.intervals[i], _ = it.within(level, false)
		amount, by := s.intervals[i].clamp(it.Want)
		if own, _ := it.within(math.MinInt, false); by == none { // bounds of lower levels hold where they can
			amount, by = own.clamp(it.Want)
		}
		s.at[i] = it.choice(amount, by)
	}
	for _, t := range s.Totals {
		if t.Of == Amount && s.excess(t, s.sums()) > 0 {
			s.meet(t)
		}
	}
	gives := func(i int) bool { return s.Items[i].Line != nil && (all || s.Items[i].Yields) }
	most, by := s.total(Follower, false)
	s.lowerFollowed(most, by, gives)

	var above int64 // of items that give way
	for i := range s.Items {
		if gives(i) {
			above = lang.SaturatingAdd(above, s.at[i].Follower-s.at[i].Amount)
		}
	}
	of := s.sums()
	for _, t := range s.Totals {
		if t.Of == Ratio {
			if bound, _ := lang.MulDivFloor(lang.SaturatingAdd(of.amount, s.BesideAmount), t.Value, 1000); bound-s.BesideFollower < most {
				most, by = bound-s.BesideFollower, t.ID
			}
		}
	}
	if room := above - (of.follower - most); above > 0 && room >= 0 && room < above {
		for i := range s.Items {
			if c := &s.at[i]; gives(i) {
				if keeps, _ := lang.MulDivFloor(c.Follower-c.Amount, room, above); c.Amount+keeps != c.Follower {
					c.Follower, c.FollowerBy = c.Amount+keeps, by
				}
			}
		}
	}
	return s.violated() == none
}

// lowerFollowed lowers amounts until followers fit, where those that give way equal their amounts.
func (s *state) lowerFollowed(most int64, by int, gives func(int) bool) {
	amounts, least := make([]int64, len(s.Items)), make([]int64, len(s.Items))
	var sum int64
	for i := range s.Items {
		it := &s.Items[i]
		switch {
		case gives(i):
			amounts[i], least[i] = s.at[i].Amount, s.intervals[i].least
		case it.Line != nil:
			amounts[i] = s.at[i].Follower
			least[i], _ = it.follower(s.intervals[i].least)
		}
		sum = lang.SaturatingAdd(sum, amounts[i])
	}
	room := most - s.sums().fixed
	if sum <= room {
		return
	}
	for i, share := range lower(max(room, 0), amounts, least) {
		it := &s.Items[i]
		if share == amounts[i] {
			continue
		}
		if !gives(i) {
			share = max(it.highest(share), s.intervals[i].least)
		}
		s.at[i] = it.choice(share, by)
	}
}
