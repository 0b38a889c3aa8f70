package main

import (
	"context"
	"fmt"
	"time"
)

var recommenderBenchmark = benchmark{
	name: "recommender", component: "recommender", baseline: upstream,
	about:  "cycles of the recommender: time, CPU, memory, API requests (12 minutes)",
	trials: []string{idle, sampled},
	defaults: options{programs: list{upstream, celvpa}, trials: list{idle}, vpas: 1000, replicas: 2, containers: 1,
		rounds: 1, cycles: 3},
	prepare: func(ctx context.Context, l *lab) (measurer, error) {
		usage := &usageAPI{containers: l.containers}
		if err := l.ServeUsage(ctx, usage.usage); err != nil {
			return nil, err
		}
		if err := l.populate(ctx); err != nil {
			return nil, err
		}
		if err := usage.list(ctx, l); err != nil {
			return nil, err
		}
		return &recommenders{lab: l, usage: usage}, nil
	},
}

// The trials of a recommender.
const (
	idle    = "idle"    // metrics.k8s.io knows no pod
	sampled = "samples" // it has a new sample of every container in each cycle
)

type recommenders struct {
	*lab
	usage *usageAPI
}

func (r *recommenders) title(trial string) string {
	return fmt.Sprintf("recommender/%s, default flags: %d VPAs, %d pods, %d containers; %d cycles after the first",
		trial, r.vpas, r.pods(), r.pods()*r.containers, r.cycles)
}

// cycleEnd is what had happened when a cycle ended.
type cycleEnd struct {
	at     time.Time
	cycles float64
	steps  map[string]float64
	asked  requests
}

// measure runs a recommender until it has ended the cycles to measure.
func (r *recommenders) measure(ctx context.Context, p program, trial string) ([]value, error) {
	if err := r.renewVPAs(ctx, vpa); err != nil {
		return nil, err
	}
	r.usage.samples.Store(trial == sampled)
	var flags []string
	if p.ours && trial == idle { // recommend without samples as upstream does: otherwise there is no status to write
		flags = []string{"--recommendation-min-samples=0"}
	}
	one, err := r.start(p, trial, nil, flags)
	if err != nil {
		return nil, err
	}
	defer one.end()
	stop := watch(one.Pid())
	ends := []cycleEnd{{}}
	err = one.poll(ctx, time.Second, func(m metrics) (done bool, err error) {
		last := ends[len(ends)-1]
		now := cycleEnd{at: time.Now()}
		if now.cycles, now.steps = m.steps("vpa_recommender_execution_latency_seconds"); now.cycles == last.cycles {
			return false, nil
		}
		if now.asked, err = r.requests(ctx, ofRecommender); err != nil {
			return false, err
		}
		progress("%s: %.0f cycles, the last took %.2f s", p.name, now.cycles, now.mean(last, "total"))
		ends = append(ends, now)
		return int(now.cycles-ends[1].cycles) >= r.cycles, nil
	})
	seen := stop()
	if err != nil {
		return nil, err
	}
	return recommenderValues(ends, seen, r.vpas), one.saveHeap(ctx)
}

// ofRecommender reports whether a request is one that only recommenders send.
func ofRecommender(a asked) bool {
	return a.group == "autoscaling.k8s.io" || a.group == "metrics.k8s.io" || a.subresource == "scale"
}

// mean is the mean time of a step since an earlier end, in seconds.
func (c cycleEnd) mean(since cycleEnd, step string) float64 {
	return (c.steps[step] - since.steps[step]) / (c.cycles - since.cycles)
}

// recommenderValues are of all cycles but the first. Ends start with that of no cycle.
func recommenderValues(ends []cycleEnd, seen samples, vpas int) []value {
	first, last := ends[1], ends[len(ends)-1]
	longest, steps := 0.0, map[string]float64{}
	for i := 2; i < len(ends); i++ {
		longest = max(longest, ends[i].mean(ends[i-1], "total"))
	}
	for step := range last.steps {
		steps[step] = last.mean(first, step)
	}
	cycles, asked, measured := last.cycles-first.cycles, last.asked.since(first.asked), seen.between(first.at, last.at)
	out := append([]value{{"VPAs", count, float64(vpas)}, {"cycle, mean", seconds, steps["total"]}}, stepValues(steps)...)
	return append(out,
		value{"cycle, longest", seconds, longest},
		value{"first cycle", seconds, first.mean(ends[0], "total")},
		value{"CPU per minute", seconds, measured.cores() * 60},
		value{"RSS, median", mebibytes, measured.rss()},
		value{"RSS, peak", mebibytes, float64(seen.last().Peak)},
		value{"API writes per cycle", count, asked.writes / cycles},
		value{"API reads per cycle", count, asked.reads / cycles},
	)
}
