package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatGoGivesUpWithIsACrash(t *testing.T) {
	const log = `{"level":"info","msg":"panic: not one"}` + "\n"
	require.Empty(t, ofRuntime.FindAllString(log+"estimate.yaml:23:51: much is not a number\ncelvpa: the rules cannot be used\n", -1), "a start that is refused says why")
	require.Equal(t, []string{"panic: runtime error: index out of range", "goroutine 7 [running]:"},
		ofRuntime.FindAllString(log+"panic: runtime error: index out of range\n\ngoroutine 7 [running]:\nmain.main()\n", -1))
}

func TestGrowth(t *testing.T) {
	heap := limit{"heap", "heap", 1 << 20, 4 << 20}
	for name, tt := range map[string]struct {
		mebibytes func(i int) float64
		samples   int
		flat      bool
		text      string
	}{
		"level":                     {func(int) float64 { return 20 }, 40, true, "heap: from 20.0 to 20.0"},
		"bursts":                    {func(i int) float64 { return 20 + float64(i%5/4*100) }, 40, true, "heap: from 20.0 to 20.0"},
		"a cache that fills":        {func(i int) float64 { return 20 + min(float64(i), 3) }, 40, true, "heap: from 23.0 to 23.0"},
		"a leak below the floor":    {func(i int) float64 { return 20 + float64(i)/15 }, 40, true, "heap: from 20.3 to 22.3"},
		"a leak":                    {func(i int) float64 { return 20 + float64(i)/5 }, 40, false, "heap: from 21.0 to 27.0"},
		"a tenth of a large heap":   {func(i int) float64 { return 200 + float64(i)/3 }, 40, true, "heap: from 201.7 to 211.7"},
		"fewer samples than enough": {func(int) float64 { return 20 }, enough - 1, false, "heap: no life was long enough to judge; run longer"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &component{samples: [][]sample{nil, {{age: time.Hour}}}}
			for i := range tt.samples + 10 { // of which the first ten are the warm-up
				c.samples[0] = append(c.samples[0], sample{time.Duration(i) * time.Second, map[string]float64{"heap": tt.mebibytes(max(i-10, 0)) * (1 << 20)}})
			}
			warm := c.warm(10 * time.Second)
			require.Len(t, warm, tt.samples)
			g := heap.judge(warm)
			require.Equal(t, tt.flat, g.flat())
			require.Equal(t, tt.text, g.String())
		})
	}
}
