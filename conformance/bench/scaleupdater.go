package main

import (
	"context"
	"fmt"
	"time"

	"github.com/celvpa/celvpa/conformance/bench/crowd"
)

// updater measures one that decides about all pods in each cycle. All are within what is
// recommended for them, so that none is evicted.
func (s *scaling) updater(ctx context.Context, vpas int) ([]value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	minute, qps := s.pace(vpas)
	c, err := crowd.Make(vpas, time.Now().Add(-time.Hour), crowd.Recommended)
	if err != nil {
		return nil, err
	}
	l, err := s.serve(ctx, serverOf(c))
	if err != nil {
		return nil, err
	}
	one, err := s.component(l, "updater", qps, fmt.Sprintf("--updater-interval=%s", minute), "--use-admission-controller-status=false")
	if err != nil {
		return nil, err
	}
	defer one.end()
	stop := watch(one.Pid())
	ends, decided := []cycleEnd{{}}, 0.0
	err = one.poll(ctx, max(time.Second, minute/5), func(m metrics) (bool, error) {
		last, now := ends[len(ends)-1], cycleEnd{at: time.Now()}
		if now.cycles, now.steps = m.steps("vpa_updater_execution_latency_seconds"); now.cycles == last.cycles {
			return false, nil
		}
		if ends = append(ends, now); len(ends) == 2 {
			s.cpuProfile(ctx, one, fmt.Sprintf("updater-%d", vpas), 3*minute)
		}
		decided = 0
		for _, of := range m["celvpa_updater_pods"].GetMetric() {
			decided += of.GetGauge().GetValue()
		}
		progress("updater: %.0f cycles, the last took %.2f s", now.cycles, now.mean(last, "total"))
		c.Minute()
		return int(now.cycles-ends[1].cycles) >= s.cycles, nil
	})
	seen := stop()
	if err != nil {
		return nil, err
	}
	if err := s.heapProfile(ctx, one, fmt.Sprintf("updater-%d", vpas)); err != nil {
		return nil, err
	}
	return scaleUpdaterValues(vpas, c.Pods(), ends, decided, seen), nil
}

func scaleUpdaterValues(vpas, pods int, ends []cycleEnd, decided float64, seen samples) []value {
	first, last := ends[1], ends[len(ends)-1]
	measured := seen.between(first.at, last.at)
	out := []value{
		{"VPAs", count, float64(vpas)},
		{"pods decided about, of all", percent, decided / float64(pods)},
		{"cycle, mean", seconds, last.mean(first, "total")},
	}
	out = append(out, stepValues(meanSteps(first, last))...)
	return append(out,
		value{"pods per second", count, decided / last.mean(first, "total")},
		value{"CPU per minute", seconds, measured.cpu() / (last.cycles - first.cycles)},
		value{"RSS, median", mebibytes, measured.rss()},
		value{"RSS, peak", mebibytes, float64(seen.last().Peak)},
	)
}
