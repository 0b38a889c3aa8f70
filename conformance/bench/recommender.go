package main

import (
	"context"
	"fmt"
	"time"

	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var recommenderBenchmark = benchmark{
	name: "recommender", component: "recommender",
	about:  "cycles of the recommender: time, CPU, memory (12 minutes)",
	trials: []string{"idle"}, // metrics.k8s.io knows no pod
	vpas:   1000, replicas: 2, rounds: 1,
	prepare: func(ctx context.Context, l *lab) (measurer, error) {
		if err := l.ServeUsage(ctx, func(string) []metricsv1beta1.PodMetrics { return nil }); err != nil {
			return nil, err
		}
		return &recommenders{l}, l.populate(ctx)
	},
}

// measuredCycles are those after the first.
const measuredCycles = 3

type recommenders struct{ *lab }

func (r *recommenders) title(trial string) string {
	return fmt.Sprintf("recommender/%s, default flags: %d VPAs, %d pods; %d cycles after the first", trial, r.vpas, r.pods(), measuredCycles)
}

// measure runs a recommender until it has ended the cycles to measure.
func (r *recommenders) measure(ctx context.Context, p program, trial string) ([]value, error) {
	if err := r.renewVPAs(ctx, vpa); err != nil {
		return nil, err
	}
	var flags []string
	if p.ours { // recommend without samples as upstream does: otherwise there is no status to write
		flags = []string{"--recommendation-min-samples=0"}
	}
	running, err := r.start(p, trial, nil, flags)
	if err != nil {
		return nil, err
	}
	defer running.end()
	ends, seen, err := running.watchCycles(ctx, recommenderCycles, time.Second, measuredCycles, nil)
	if err != nil {
		return nil, err
	}
	return recommenderValues(ends, seen, r.vpas), nil
}

// recommenderValues are of all cycles but the first. Ends start with that of no cycle.
func recommenderValues(ends []cycleEnd, seen samples, vpas int) []value {
	first, last := ends[1], ends[len(ends)-1]
	measured := seen.between(first.at, last.at)
	out := append([]value{{"VPAs", count, float64(vpas)}, {"cycle, mean", seconds, last.mean(first, "total")}}, stepValues(first, last)...)
	return append(out,
		value{"first cycle", seconds, first.mean(ends[0], "total")},
		value{"CPU per minute", seconds, measured.cores() * 60},
		value{"RSS, median", mebibytes, measured.rss()},
		value{"RSS, peak", mebibytes, float64(seen.last().Peak)},
	)
}
