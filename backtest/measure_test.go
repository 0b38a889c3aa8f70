package backtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const hour = int64(time.Hour)

// TestTimeToAdaptEndsWhenTheRequestIsRaised, and does not count when usage falls first.
func TestTimeToAdaptEndsWhenTheRequestIsRaised(t *testing.T) {
	t1 := &tally{}
	m := meter{tally: t1, kind: cpu}
	m.begin(0, 100, 0)
	m.sample(1*hour, 200, 100*hour) // a spike
	m.sample(2*hour, 50, 100*hour)
	m.sample(3*hour, 300, 100*hour) // a step
	m.sample(4*hour, 250, 100*hour)
	m.set(5*hour, 200, 0) // not enough
	m.set(7*hour, 250, 0)
	m.set(8*hour, 400, 0)
	require.Equal(t, []int64{4 * 3600}, t1.adapted)
}

// TestAFlapUndoesTheChangeBeforeWithinADay.
func TestAFlapUndoesTheChangeBeforeWithinADay(t *testing.T) {
	t1 := &tally{}
	m := meter{tally: t1, kind: memory}
	m.begin(0, 100, 0)
	m.set(1*hour, 200, 0)
	m.set(2*hour, 200, 50) // the limit alone
	m.set(3*hour, 300, 0)
	require.Zero(t, t1.flaps)
	m.set(20*hour, 100, 0)
	require.Equal(t, 1, t1.flaps)
	m.set(45*hour, 200, 0) // more than a day later
	require.Equal(t, 1, t1.flaps)
	m.set(46*hour, 100, 0)
	require.Equal(t, 2, t1.flaps)
}

// TestAGapIsUnknownUsage, while the request goes on.
func TestAGapIsUnknownUsage(t *testing.T) {
	t1 := &tally{}
	m := meter{tally: t1, kind: cpu}
	m.begin(0, 1000, 500)
	m.sample(0, 800, 2*hour)
	m.sample(10*hour, 1200, 12*hour)
	m.advance(11 * hour)
	m.advance(5 * hour) // the past is summed
	got := t1.totals[cpu]
	require.Equal(t, totals{
		requested: 11 * 3600 * 1000, observed: 3 * 3600, requestedObserved: 3 * 3600 * 1000, used: 2*3600*800 + 3600*1200,
		slack: 2 * 3600 * 200, over: 3600, beyond: 2*3600*300 + 3600*700,
	}, got)
}

// TestQuantilesAreByNearestRank.
func TestQuantilesAreByNearestRank(t *testing.T) {
	var list []float64
	for i := 100; i > 0; i-- {
		list = append(list, float64(i))
	}
	require.Equal(t, Quantiles{P50: 50, P95: 95, Worst: 100}, quantiles(list))
	require.Equal(t, Quantiles{P50: 7, P95: 7, Worst: 7}, quantiles([]float64{7}))
	require.Equal(t, Quantiles{}, quantiles(nil))
	require.Equal(t, Times{Count: 3, P50: 2, P95: 3, Worst: 3}, timesOf([]int64{3, 1, 2}))
}

// TestTheFrontHasWhatNoOtherPolicyBeats.
func TestTheFrontHasWhatNoOtherPolicyBeats(t *testing.T) {
	policy := func(name string, cores, gib float64, ooms int, over float64) Policy {
		p := Policy{Name: name}
		p.Fleet.CPU.RequestedCoreHours, p.Fleet.Memory.RequestedGiBHours, p.Fleet.OOMs, p.Fleet.CPU.OverRequestShare = cores, gib, ooms, over
		return p
	}
	list := []Policy{
		policy(Hindsight, 1, 1, 0, 0),
		policy("cheap", 2, 4, 5, 0.1),
		policy("safe", 4, 4, 0, 0),
		policy("worse than safe", 4, 8, 0, 0),
		policy("as good as safe", 3, 8, 0, 0),
		policy("between", 3, 4, 2, 0.05),
	}
	front(list)
	for _, p := range list {
		require.Equal(t, p.Name != Hindsight && p.Name != "worse than safe", p.Pareto, p.Name)
	}
}
