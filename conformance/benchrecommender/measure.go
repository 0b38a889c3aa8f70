package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/celvpa/celvpa/conformance/harness"
)

// cycleMetric is a histogram that both recommenders keep, by step.
const cycleMetric = "vpa_recommender_execution_latency_seconds"

// result is what one recommender took. Times are in seconds, memory is in bytes.
type result struct {
	name   string
	ours   bool
	cycles int                // that were measured, not counting the first
	first  float64            // the first cycle
	steps  map[string]float64 // mean of a step, in the cycles that were measured; "total" is the cycle
	worst  float64            // the longest of these cycles
	window float64            // from the end of the first cycle to the end of the last
	cpu    float64            // in the window
	rss    uint64             // median in the window, looked at every second
	peak   uint64             // highest ever
	writes float64            // to the API, in the window
	reads  float64
}

// state is all that is read at one moment.
type state struct {
	at       time.Time
	cycles   float64
	steps    map[string]float64 // sum of each step
	requests harness.Requests
	harness.Footprint
}

// measure runs a program until it has gone through its cycles.
func (b *bench) measure(ctx context.Context, p harness.Program) (r result, err error) {
	begin := time.Now()
	one, err := b.start(p)
	if err != nil {
		return r, err
	}
	defer one.Stop()
	harness.Say("%s runs; its first cycle is due in a minute, and %d more are measured", p.Name, b.cycles)
	r = result{name: p.Name, ours: p.Ours}
	var start, last state
	var rss []uint64
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-tick.C:
		}
		if err := one.Alive(); err != nil {
			return r, err
		}
		now, err := b.look(ctx, one)
		if err != nil && time.Since(begin) < time.Minute { // it is not up yet
			continue
		} else if err != nil {
			return r, err
		}
		if start.cycles > 0 {
			rss = append(rss, now.RSS)
		}
		if now.cycles == last.cycles {
			continue
		}
		took := (now.steps["total"] - last.steps["total"]) / (now.cycles - last.cycles)
		harness.Say("%s: cycle %.0f took %.2f s, memory %s", p.Name, now.cycles, took, harness.Mebibytes(float64(now.RSS)))
		if now.requests, err = harness.CountRequests(ctx, b.api, counts); err != nil {
			return r, err
		}
		last = now
		if start.cycles == 0 {
			start, r.first = now, took
			continue
		}
		r.worst = max(r.worst, took)
		if int(now.cycles-start.cycles) >= b.cycles {
			break
		}
	}
	r.cycles = int(last.cycles - start.cycles)
	r.steps = map[string]float64{}
	for step, sum := range last.steps {
		r.steps[step] = (sum - start.steps[step]) / float64(r.cycles)
	}
	r.rss, r.peak = uint64(harness.Median(rss)), last.Peak
	r.window, r.cpu = last.at.Sub(start.at).Seconds(), last.CPU-start.CPU
	asked := last.requests.Since(start.requests)
	r.writes, r.reads = asked.Writes, asked.Reads
	if b.profile {
		file := filepath.Join(b.logs, filepath.Base(p.Path)+".heap")
		if err := harness.SaveProfile(ctx, one.address, "heap", file); err != nil {
			return r, err
		}
		harness.Say("the heap profile is in %s", file)
	}
	return r, nil
}

// look reads how many cycles a process has finished and what they took.
func (b *bench) look(ctx context.Context, p *process) (s state, err error) {
	metrics, err := harness.ReadMetrics(ctx, p.address)
	if err != nil {
		return s, err
	}
	s.at = time.Now()
	s.cycles, s.steps = metrics.Steps(cycleMetric)
	s.Footprint, err = p.Footprint()
	return s, err
}

// counts tells what nobody in the lab but a recommender asks an API server for.
func counts(a harness.Asked) bool {
	return a.Group == "autoscaling.k8s.io" || a.Group == "metrics.k8s.io" || a.Subresource == "scale"
}
