package bounds

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func least(v int64, level int) Bound { return Bound{Least: true, Value: v, Level: level} }
func most(v int64, level int) Bound  { return Bound{Value: v, Level: level} }
func of(o Of, b Bound) Bound         { b.Of = o; return b }

func TestEachItemComesAsNearToWhatIsWantedAsItsBoundsAllow(t *testing.T) {
	fourTimes := &Line{Num: 4, Den: 1}
	for name, tt := range map[string]struct {
		item             Item
		amount, follower int64
	}{
		"no bounds":                              {Item{Want: 200, Line: fourTimes}, 200, 800},
		"a most for the follower":                {Item{Want: 200, Line: fourTimes, Bounds: []Bound{of(Follower, most(600, 0))}}, 150, 600},
		"a least for the follower is rounded up": {Item{Want: 1, Line: &Line{Num: 3, Den: 2}, Bounds: []Bound{of(Follower, least(100, 0))}}, 67, 100},
		"of two that contradict the later holds": {Item{Want: 5, Bounds: []Bound{most(10, 0), least(20, 1)}}, 20, 0},
		"and the other way round":                {Item{Want: 50, Bounds: []Bound{least(20, 0), most(10, 1)}}, 10, 0},
		"a later least wins over the line":       {Item{Want: 100, Line: fourTimes, Bounds: []Bound{of(Follower, most(300, 0)), least(100, 1)}}, 100, 300},
		"a later line wins over a least":         {Item{Want: 100, Line: fourTimes, Bounds: []Bound{least(100, 0), of(Follower, most(300, 1))}}, 75, 300},
		"a line with no room at all gives way":   {Item{Want: 200, Line: &Line{Num: 1000, Den: 1}, Bounds: []Bound{of(Follower, most(400, 0))}}, 200, 400},
		"what a line adds":                       {Item{Want: 200, Line: &Line{Num: 1, Den: 1, Extra: 50}, Bounds: []Bound{of(Follower, most(220, 0))}}, 170, 220},
		"a ratio lowers the follower":            {Item{Want: 100, Line: fourTimes, Bounds: []Bound{of(Ratio, most(2000, 0))}}, 100, 200},
		"a ratio beside a most":                  {Item{Want: 200, Line: fourTimes, Bounds: []Bound{of(Follower, most(300, 0)), of(Ratio, most(2000, 0))}}, 150, 300},
		"a ratio raises to a follower that stays": {
			Item{Want: 100, Fixed: new(int64(1000)), Bounds: []Bound{of(Ratio, most(4000, 0))}}, 250, 1000},
		"rounding alone changes nothing": {Item{Want: 1000, Now: 713, Line: &Line{Num: 1997, Den: 713}, Rounded: true, Bounds: []Bound{of(Follower, most(2000, 0))}}, 713, 1997},
		"more than rounding does":        {Item{Want: 1000, Now: 712, Line: &Line{Num: 1994, Den: 712}, Rounded: true, Bounds: []Bound{of(Follower, most(2000, 0))}}, 714, 1999},
		"the largest amounts":            {Item{Want: math.MaxInt64, Line: fourTimes, Bounds: []Bound{least(math.MaxInt64, 0), of(Follower, most(math.MaxInt64, 1))}}, math.MaxInt64 / 4, math.MaxInt64 - 3},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := (&Problem{Items: []Item{tt.item}}).Solve()
			require.True(t, ok)
			require.Equal(t, []int64{tt.amount, tt.follower}, []int64{got[0].Amount, got[0].Follower})
			require.Equal(t, tt.amount == tt.item.Want, got[0].By == none, "who bounds it is said where it is bounded")
		})
	}
}

func TestTotalsAreSharedInProportion(t *testing.T) {
	even := &Line{Num: 1, Den: 1}
	for name, tt := range map[string]struct {
		items   []Item
		totals  []Bound
		amounts []int64
		fails   bool
	}{
		"scaled by one factor": {items: []Item{{Want: 4, Line: even}, {Want: 21, Line: even}, {Want: 90, Line: even}},
			totals: []Bound{of(Follower, most(80, 0))}, amounts: []int64{2, 14, 62}},
		"raised, rounded up": {items: []Item{{Want: 1 << 30}, {Want: 2 << 30}}, totals: []Bound{least(4<<30, 0)}, amounts: []int64{1431655766, 2863311531}},
		"what one cannot give the others do": {items: []Item{{Want: 100, Bounds: []Bound{least(90, 1)}}, {Want: 100}, {Want: 100}},
			totals: []Bound{most(150, 0)}, amounts: []int64{90, 30, 30}},
		"what one cannot take the others do": {items: []Item{{Want: 560, Line: even, Bounds: []Bound{of(Follower, most(600, 1))}}, {Want: 40, Line: even}},
			totals: []Bound{least(900, 0), of(Follower, least(900, 0))}, amounts: []int64{600, 300}},
		"a bound of a lower level yields": {items: []Item{{Want: 300, Bounds: []Bound{least(300, 0)}}, {Want: 300, Bounds: []Bound{least(200, 0)}}},
			totals: []Bound{most(400, 1)}, amounts: []int64{200, 200}},
		"no further than a total asks for more": {items: []Item{{Want: 2000, Bounds: []Bound{most(100, 0)}}}, totals: []Bound{least(150, 1)}, amounts: []int64{150}},
		"no further than a total asks for less": {items: []Item{{Want: 100, Bounds: []Bound{least(2000, 0)}}}, totals: []Bound{most(1000, 1)}, amounts: []int64{1000}},
		"but only if it must": {items: []Item{{Want: 300, Bounds: []Bound{least(300, 0)}}, {Want: 300, Bounds: []Bound{least(100, 0)}}},
			totals: []Bound{most(400, 1)}, amounts: []int64{300, 100}},
		"towards what they have, where totals contradict on the way": {
			items:   []Item{{Want: 10, Now: 100, Line: even}, {Want: 200, Now: 100, Line: &Line{Num: 4, Den: 1}}},
			totals:  []Bound{least(150, 0), of(Follower, most(500, 0))},
			amounts: []int64{35, 115}},
		"and only those that a total asks to": {
			items:  []Item{{Want: 0, Now: 512, Line: even}, {Want: 200, Now: 0}},
			totals: []Bound{least(100, 0), of(Follower, least(100, 0))}, amounts: []int64{100, 200}},
		"nothing fits": {items: []Item{{Want: 10, Bounds: []Bound{least(10, 1)}}, {Want: 10, Bounds: []Bound{least(10, 1)}}}, totals: []Bound{most(15, 0)},
			amounts: []int64{10, 10}, fails: true},
		"less than nothing is left": {items: []Item{{Want: 10}}, totals: []Bound{most(-1, 0)}, amounts: []int64{10}, fails: true},
		"sums beyond 64 bits":       {items: []Item{{Want: math.MaxInt64}, {Want: math.MaxInt64}}, totals: []Bound{most(math.MaxInt64, 0)}, amounts: []int64{math.MaxInt64 / 2, math.MaxInt64 / 2}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := (&Problem{Items: tt.items, Totals: tt.totals}).Solve()
			amounts := make([]int64, len(got))
			for i := range got {
				amounts[i] = got[i].Amount
			}
			require.Equal(t, tt.amounts, amounts)
			require.Equal(t, tt.fails, !ok)
		})
	}
}

func TestLinesThatYieldGiveWayFirst(t *testing.T) {
	items := []Item{{Want: 100, Line: &Line{Num: 4, Den: 1}}, {Want: 100, Line: &Line{Num: 4, Den: 1}, Yields: true}}
	got, ok := (&Problem{Items: items, Totals: []Bound{least(200, 0), of(Follower, most(600, 0))}}).Solve()
	require.True(t, ok)
	require.Equal(t, []int64{100, 400, 100, 200}, []int64{got[0].Amount, got[0].Follower, got[1].Amount, got[1].Follower})
}

// FuzzSolve checks what holds of every solution, and that it does not take long.
func FuzzSolve(f *testing.F) {
	for seed := range uint64(2000) {
		f.Add(seed, uint8(seed%9))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		p := generate(rand.New(rand.NewPCG(seed, 1)), int(n)%50)
		before := time.Now()
		got, ok := p.Solve()
		require.Less(t, time.Since(before), time.Minute, "a hang")
		again, _ := p.Solve()
		require.Equal(t, got, again)
		s := &state{Problem: p, at: got}
		if ok {
			require.Equal(t, none, s.violated(), "%+v", p)
		}
		for i, c := range got {
			require.GreaterOrEqual(t, c.Amount, int64(0))
			if p.Items[i].Line != nil {
				require.GreaterOrEqual(t, c.Follower, c.Amount, "%+v", p.Items[i])
			}
			if len(p.Totals) == 0 {
				v := p.Items[i].interval(math.MinInt)
				require.LessOrEqual(t, v.least, c.Amount)
				require.GreaterOrEqual(t, v.most, c.Amount)
			}
		}
		// What the items have now keeps all totals, and nothing of a higher level speaks against it: so there is a solution.
		now := &state{Problem: p, at: make([]Choice, len(p.Items))}
		fits := true
		for i := range p.Items {
			it := &p.Items[i]
			now.at[i] = it.choice(it.Now, none)
			amount, _ := it.interval(0).clamp(it.Now)
			fits = fits && amount == it.Now
		}
		if fits && now.violated() == none {
			require.True(t, ok, "%+v", p)
		}
	})
}

func generate(r *rand.Rand, n int) *Problem {
	amount := func() int64 {
		switch r.IntN(12) {
		case 0:
			return 0
		case 1:
			return math.MaxInt64 - r.Int64N(3)
		}
		return r.Int64N(1 << (1 + r.IntN(40)))
	}
	p := &Problem{BesideAmount: amount() / 1024, BesideFollower: amount() / 1024}
	id := 0
	bound := func(o Of) Bound {
		id++
		b := Bound{Of: o, Least: o != Ratio && r.IntN(2) == 0, Value: amount(), Level: r.IntN(3), ID: id}
		if o == Ratio {
			b.Value = 1000 + r.Int64N(4000)
		}
		return b
	}
	for range n {
		it := Item{Want: amount(), Now: amount(), Yields: r.IntN(2) == 0}
		switch r.IntN(3) {
		case 0:
			it.Fixed = new(max(it.Now, amount()))
		case 1:
			den := max(1, it.Now)
			it.Line = &Line{Num: max(den, amount()), Den: den}
			it.Rounded = r.IntN(2) == 0
		}
		for level := range r.IntN(3) {
			b := bound(Of(r.IntN(3)))
			b.Level = level
			it.Bounds = append(it.Bounds, b)
		}
		p.Items = append(p.Items, it)
	}
	for range r.IntN(4) {
		p.Totals = append(p.Totals, bound(Of(r.IntN(3))))
	}
	return p
}
