package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestTargetsAreJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		targets string
		theirs  []value
		ours    []value
		want    []string // target and verdict of each row
	}{
		"amounts":                {`[{metric: cycle, max: 60}, {metric: RSS, max: 1Mi}]`, measured(1, 1), measured(60, 2<<20), []string{"≤ 60.000 s met", "≤ 1.0 MiB MISSED"}},
		"from and to":            {`[{metric: cycle, min: 10, max: 60}]`, measured(1, 1), measured(9, 1), []string{"≥ 10.000 s, ≤ 60.000 s MISSED", " "}},
		"ratios":                 {`[{metric: cycle, maxRatio: 0.5}, {metric: RSS, minRatio: 1.8}]`, measured(20, 10), measured(10, 17), []string{"≤ 0.5 times met", "≥ 1.8 times MISSED"}},
		"a ratio of celvpa only": {`[{metric: cycle, maxRatio: 0.5}]`, nil, measured(10, 1), []string{" ", " "}},
	} {
		t.Run(name, func(t *testing.T) {
			var targets []target
			require.NoError(t, yaml.UnmarshalStrict([]byte(tt.targets), &targets))
			programs, rounds := []program{us}, [][][]value{{tt.ours}}
			if tt.theirs != nil {
				programs, rounds = []program{them, us}, [][][]value{{tt.theirs}, {tt.ours}}
			}
			of := newTable("", programs, rounds)
			require.NoError(t, of.judge(targets))
			var got []string
			for _, r := range of.rows {
				got = append(got, r.target+" "+r.verdict)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestTargetOfAnUnknownMetricIsAnError(t *testing.T) {
	of := newTable("", []program{us}, [][][]value{{measured(1, 1)}})
	require.EqualError(t, of.judge([]target{{Metric: "cycel"}}), `no metric "cycel"; known: cycle; RSS`)
}

// What each benchmark measures has the rows that targets.yaml names.
func TestTargetsNameMetricsThatAreMeasured(t *testing.T) {
	now := time.Now()
	seen := samples{{at: now}, {at: now.Add(time.Second)}}
	steps := map[string]float64{"total": 1}
	ends := []cycleEnd{{}, {at: now, cycles: 1}, {at: now.Add(time.Minute), cycles: 2, steps: steps}}
	evicted := evictions{count: 1, first: now, last: now}
	values := map[string][]value{
		"recommender/idle": recommenderValues(ends, seen, 1),
		"updater/default":  updaterValues(evicted, ends[1], ends[2], seen, 1),
		"updater/fast":     updaterValues(evicted, ends[1], ends[2], seen, 1),
		"pods/load":        podValues([]time.Duration{1}, seen, seen),
	}
	for _, size := range []string{"10000", "50000"} {
		values["scale/recommender/"+size] = scaleRecommenderValues(1, 60, ends, seen)
		values["scale/updater/"+size] = scaleUpdaterValues(1, 1, ends, 1, seen)
	}
	all, err := loadTargets()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for trial, targets := range all {
		require.Contains(t, values, trial)
		require.NoError(t, newTable("", []program{us}, [][][]value{{values[trial]}}).judge(targets), trial)
	}
}
