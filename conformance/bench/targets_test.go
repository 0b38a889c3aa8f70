package main

import (
	"strings"
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
		missed  int
	}{
		"amounts":                {`[{metric: cycle, max: 60}, {metric: RSS, max: 1Mi}]`, measured(1, 1), measured(60, 2<<20), []string{"≤ 60.000 s met", "≤ 1.0 MiB MISSED"}, 1},
		"from and to":            {`[{metric: cycle, min: 10, max: 60}]`, measured(1, 1), measured(9, 1), []string{"≥ 10.000 s, ≤ 60.000 s MISSED", " "}, 1},
		"ratios":                 {`[{metric: cycle, maxRatio: 0.5}, {metric: RSS, minRatio: 1.8}]`, measured(20, 10), measured(10, 17), []string{"≤ 0.5 times met", "≥ 1.8 times MISSED"}, 1},
		"a ratio of celvpa only": {`[{metric: cycle, maxRatio: 0.5}]`, nil, measured(10, 1), []string{" ", " "}, 0},
		"of a condition that holds": {`[{metric: cycle, max: 5, provided: {metric: RSS, min: 1}}]`, measured(20, 1), measured(10, 1),
			[]string{"≤ 5.000 s MISSED", " "}, 1},
		"of a condition that fails upstream": {`[{metric: cycle, max: 5, provided: {metric: RSS, min: 1Mi}}]`, measured(20, 1), measured(10, 2<<20),
			[]string{"≤ 5.000 s not judged: RSS of upstream 1.8.1 is 0.0 MiB, not ≥ 1.0 MiB", " "}, 0},
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
			require.Equal(t, tt.missed, of.missed())
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
	values := map[string][]value{
		"recommender": recommenderValues(ends, seen, 1),
		"updater":     updaterValues([]change{{at: now}}, steps, seen, 1),
		"pods":        podValues([]time.Duration{1}, seen, seen),
		"admission":   latencies([]time.Duration{1}, time.Second),

		"scale/recommender": append(scaleRecommenderValues(1, 60, ends, 1, 1, seen, 1, 1), startValues(time.Second, 1)...),
		"scale/cold":        coldValues(1, time.Second),
		"scale/updater":     scaleUpdaterValues(1, 1, ends, 1, seen),
	}
	known := map[string]benchmark{}
	for _, b := range benchmarks {
		known[b.name] = b
	}
	all, err := loadTargets()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for name, targets := range all {
		if of := values[name]; of != nil {
			require.NoError(t, newTable("", []program{us}, [][][]value{{of}}).judge(targets), name)
			continue
		}
		name, trial, _ := strings.Cut(name, "/")
		require.Contains(t, known[name].trials, trial, "benchmark %q has no trial %q", name, trial)
		require.NoError(t, newTable("", []program{us}, [][][]value{{values[name]}}).judge(targets), name)
	}
}
