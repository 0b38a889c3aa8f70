package backtest

import (
	"maps"
	"slices"

	"github.com/celvpa/celvpa/controllers/matcher"
)

// outcome is what came out of a replay.
type outcome struct {
	workloads []workloadOutcome // as in the shard
	notes     []string
}

type workloadOutcome struct {
	obstacle   *Obstacle          // to any update; nil = pods were updated, or there is none
	whole      tally              // of all containers; evictions and resizes count once
	containers []containerOutcome // by name
}

type containerOutcome struct {
	name   string
	tally  *tally
	series *Series
}

func (r *replay) outcome() *outcome {
	if r.state != nil {
		if text := r.state.TakeExcess().String(); text != "" { // of a policy that accepts less than the others
			r.note("%s", text)
		}
	}
	out := &outcome{notes: r.notes}
	for i := range r.in.workloads {
		w := workloadOutcome{whole: r.whole[i]}
		if w.whole.evictions == 0 && w.whole.resizes == 0 {
			w.obstacle = r.obstacleOf(i)
		}
		for _, name := range slices.Sorted(maps.Keys(r.tallies[i])) {
			t := r.tallies[i][name]
			w.whole.add(t)
			w.containers = append(w.containers, containerOutcome{name: name, tally: t, series: r.series[i][name].finish()})
		}
		out.workloads = append(out.workloads, w)
	}
	return out
}

// obstacleOf is what kept pods of a workload from being updated.
func (r *replay) obstacleOf(workload int) *Obstacle {
	if found := r.obstacle[workload]; found != nil {
		return found
	}
	for _, v := range r.vpas {
		if verdict := v.Verdict(matcher.Update); v.Ignored(matcher.Update) == "" && !v.Takes(matcher.Update) && slices.Contains(v.workloads, workload) {
			return &Obstacle{verdict.Rule, verdict.Reason}
		}
	}
	return nil
}
