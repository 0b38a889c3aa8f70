package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/celvpa/celvpa/conformance/harness"
)

// Histograms of the steps of a cycle, with a step "total" for the whole.
const (
	recommenderCycles = "vpa_recommender_execution_latency_seconds"
	updaterCycles     = "vpa_updater_execution_latency_seconds"
)

// metrics are those of a process, by name.
type metrics map[string]*dto.MetricFamily

// scrape reads the metrics of a process.
func (p *process) scrape(ctx context.Context) (metrics, error) {
	text, err := harness.Get(ctx, "http://"+p.address+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// sum adds up the series of a counter or a gauge.
func (m metrics) sum(name string) (out float64) {
	for _, series := range m[name].GetMetric() {
		out += series.GetCounter().GetValue() + series.GetGauge().GetValue()
	}
	return out
}

// steps reads a histogram of the steps of a cycle: the number of cycles that ended, and the seconds that
// each step took in all of them.
func (m metrics) steps(name string) (cycles float64, sums map[string]float64) {
	sums = map[string]float64{}
	for _, series := range m[name].GetMetric() {
		for _, l := range series.GetLabel() {
			if l.GetName() != "step" {
				continue
			}
			sums[l.GetValue()] = series.GetHistogram().GetSampleSum()
			if l.GetValue() == "total" {
				cycles = float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	return cycles, sums
}

// cycleEnd is what had happened when a cycle ended.
type cycleEnd struct {
	at     time.Time
	cycles float64
	steps  map[string]float64
}

// mean is the mean time of a step since an earlier end, in seconds.
func (c cycleEnd) mean(since cycleEnd, step string) float64 {
	return (c.steps[step] - since.steps[step]) / (c.cycles - since.cycles)
}

// stepValues are the mean times of the steps of the cycles between two ends, without the whole.
func stepValues(from, to cycleEnd) (out []value) {
	for _, step := range slices.Sorted(maps.Keys(to.steps)) {
		if step != "total" {
			out = append(out, value{"· " + step, seconds, to.mean(from, step)})
		}
	}
	return out
}

// watchCycles reads the metrics of a component until it has ended so many cycles after the first, and calls
// ended, if any, with those of each. The ends that it returns start with that of no cycle.
func (p *process) watchCycles(ctx context.Context, metric string, every time.Duration, count int, ended func(metrics)) ([]cycleEnd, samples, error) {
	stop := watch(p.Pid())
	ends := []cycleEnd{{}}
	err := p.poll(ctx, every, func(m metrics) (bool, error) {
		last, now := ends[len(ends)-1], cycleEnd{at: time.Now()}
		if now.cycles, now.steps = m.steps(metric); now.cycles == last.cycles {
			return false, nil
		}
		ends = append(ends, now)
		progress("%s: %.0f cycles, the last took %.2f s", p.name, now.cycles, now.mean(last, "total"))
		if ended != nil {
			ended(m)
		}
		return int(now.cycles-ends[1].cycles) >= count, nil
	})
	return ends, stop(), err
}
