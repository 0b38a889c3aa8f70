package backtest

import (
	"maps"
	"slices"
)

// outcome is what came out of a replay.
type outcome struct {
	workloads []workloadOutcome // as in the shard
	notes     []string
}

type workloadOutcome struct {
	whole      tally              // of all containers; evictions and resizes count once
	containers []containerOutcome // by name
}

type containerOutcome struct {
	name   string
	tally  *tally
	series *Series
}

func (r *replay) outcome() *outcome {
	out := &outcome{notes: r.notes}
	for i := range r.in.workloads {
		w := workloadOutcome{whole: r.whole[i]}
		for _, name := range slices.Sorted(maps.Keys(r.tallies[i])) {
			t := r.tallies[i][name]
			w.whole.add(t)
			w.containers = append(w.containers, containerOutcome{name: name, tally: t, series: r.series[i][name].finish()})
		}
		out.workloads = append(out.workloads, w)
	}
	return out
}
