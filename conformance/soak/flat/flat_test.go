package flat

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

var memory = Rule{Name: "memory", Unit: mib, Fraction: 0.1, Floor: 2 * mib}

// series is a point every 5 seconds for 15 minutes.
func series(value func(seconds float64) float64) (out []Point) {
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for i := range 180 {
		at := time.Duration(i) * 5 * time.Second
		out = append(out, Point{At: begin.Add(at), Value: value(at.Seconds())})
	}
	return out
}

func TestWhatGrowsIsDistinguishedFromWhatDoesNot(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const total = 15 * 60
	for name, c := range map[string]struct {
		value func(seconds float64) float64
		flat  bool
	}{
		"constant":               {func(float64) float64 { return 40 * mib }, true},
		"noise":                  {func(float64) float64 { return 40*mib + random.NormFloat64()*4*mib }, true},
		"the saw of a collector": {func(s float64) float64 { return 30*mib + math.Mod(s, 47)*mib/2 }, true},
		"falls":                  {func(s float64) float64 { return 60*mib - 20*mib*s/total }, true},
		"a spike at the end": {func(s float64) float64 {
			if s > total*0.85 {
				return 200 * mib
			}
			return 40 * mib
		}, true},
		"a leak":             {func(s float64) float64 { return 40*mib + 8*mib*s/total }, false},
		"a leak below a saw": {func(s float64) float64 { return 30*mib + math.Mod(s, 47)*mib/2 + 10*mib*s/total }, false},
		"a leak below dips": {func(s float64) float64 {
			if math.Mod(s, 100) < 20 {
				return 10 * mib
			}
			return 40*mib + 12*mib*s/total
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := memory.Judge(series(c.value))
			require.Equal(t, c.flat, verdict.Flat(), verdict.String())
			require.True(t, verdict.Judged)
		})
	}
}

func TestTheSlopeIsExactOnALine(t *testing.T) {
	points := series(func(s float64) float64 { return 3 + 0.25*s })
	require.InDelta(t, 0.25, Slope(points), 1e-9)
	verdict := Rule{Name: "goroutines", Unit: 1, Floor: 5}.Judge(points)
	require.InDelta(t, 900, verdict.PerHour(), 1e-6)
	require.Equal(t, "goroutines: from 24.9 to 204.9 in 14m55s, a rise of 223.8 (allowed: 5.0)", verdict.String())
}

func TestManyPointsAreThinnedOut(t *testing.T) {
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var points []Point
	for i := range 10_000 {
		points = append(points, Point{At: begin.Add(time.Duration(i) * time.Second), Value: float64(2 * i)})
	}
	require.LessOrEqual(t, len(thin(points)), most)
	require.InDelta(t, 2, Slope(points), 0.01)
}

func TestTooFewPointsAreNotFlat(t *testing.T) {
	verdict := memory.Judge(series(func(float64) float64 { return 1 })[:enough-1])
	require.False(t, verdict.Flat())
	require.Equal(t, "memory: 9 points are too few to judge; run longer", verdict.String())
}
