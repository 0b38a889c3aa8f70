package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cycleOf is what a recommender took in three cycles.
func cycleOf(name string, ours bool, total float64, rss uint64) result {
	return result{name: name, ours: ours, cycles: 3, first: 2 * total, worst: total, window: 180, cpu: 3 * total, rss: rss, peak: rss,
		steps: map[string]float64{"total": total, "UpdateVPAs": total / 2}, writes: 3000 * total}
}

func TestTheTableTellsWhatIsAskedAndWhetherItIsKept(t *testing.T) {
	upstream, ours := cycleOf("upstream 1.8.1", false, 20, 120<<20), cycleOf("celvpa", true, 1, 100<<20)
	for name, tt := range map[string]struct {
		bench   bench
		results []result
		want    []string
	}{
		"beside upstream": {bench{settings: settings{vpas: 10, replicas: 2, containers: 1, cycles: 3}}, []result{upstream, ours}, []string{
			"recommender with default flags: 10 VPAs, 20 pods, 20 containers, no samples; 3 cycles after the first",
			"upstream 1.8.1 celvpa part target",
			"cycle, mean 20.000 s 1.000 s 0.050 ≤ 0.100 of upstream's met",
			"· UpdateVPAs 10.000 s 0.500 s 0.050",
			"cycle, longest 20.000 s 1.000 s 0.050",
			"first cycle 40.000 s 2.000 s 0.050",
			"CPU a minute 20.000 s 1.000 s 0.050 ≤ 0.500 of upstream's met",
			"RSS, median 120.0 MiB 100.0 MiB 0.833 ≤ 0.667 of upstream's MISSED",
			"RSS, highest 120.0 MiB 100.0 MiB 0.833",
			"API writes a cycle 20000 1000 0.050",
			"API reads a cycle 0 0",
		}},
		"alone": {bench{settings: settings{vpas: 10, replicas: 2, containers: 1, cycles: 3}}, []result{ours}, []string{
			"recommender with default flags: 10 VPAs, 20 pods, 20 containers, no samples; 3 cycles after the first",
			"celvpa target",
			"cycle, mean 1.000 s",
		}},
		"with samples": {bench{settings: settings{vpas: 10, replicas: 2, containers: 2, cycles: 3, samples: true}}, []result{cycleOf("celvpa", true, 70, 2<<30)}, []string{
			"recommender with default flags: 10 VPAs, 20 pods, 40 containers, samples of all in each cycle; 3 cycles after the first",
			"celvpa target",
			"cycle, mean 70.000 s ≤ 60.000 s MISSED",
			"· UpdateVPAs 35.000 s",
			"cycle, longest 70.000 s ≤ 60.000 s MISSED",
			"first cycle 140.000 s ≤ 60.000 s MISSED",
			"CPU a minute 70.000 s",
			"RSS, median 2048.0 MiB ≤ 1536.0 MiB MISSED",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tt.bench.print(&out, tt.results)
			var got []string
			for line := range strings.Lines(out.String()) {
				if words := strings.Fields(line); len(words) > 0 {
					got = append(got, strings.Join(words, " "))
				}
			}
			require.Equal(t, tt.want, got[:min(len(got), len(tt.want))])
		})
	}
}
