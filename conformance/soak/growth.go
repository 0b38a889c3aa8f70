package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/celvpa/celvpa/conformance/harness"
)

// sampleEvery is how often components are measured.
const sampleEvery = 5 * time.Second

// sample is what a component holds at an age of its life: its metrics by name.
type sample struct {
	age     time.Duration
	metrics map[string]float64
}

// limit says how much a metric may grow over a life: by a tenth, or by a floor below which it is noise.
type limit struct {
	name, metric string
	unit         float64 // in the report: 1, or 1<<20 for MiB
	floor        float64
}

// limits are the rules by which a component must not grow.
//
// The heap is measured right after a collection of garbage, which the soak asks for with each sample. A leak raises it first, so its
// floor is low: rules that are compiled take some MiB for a moment. RSS also has what the allocator keeps after a burst of work.
// Goroutines and open files come and go with requests in flight, a handful at a time.
var limits = []limit{
	{"RSS", "process_resident_memory_bytes", 1 << 20, 16 << 20},
	{"live heap", "go_memstats_heap_alloc_bytes", 1 << 20, 4 << 20},
	{"goroutines", "go_goroutines", 1, 10},
	{"open files", "process_open_fds", 1, 5},
}

// enough is how many samples a judgement needs.
const enough = 10

// growth is how a metric changed over a life. Start and end are medians of the first and the last quarter: bursts do not move them, a
// leak does.
type growth struct {
	limit
	start, end float64
	judged     bool // false: the life was too short
}

func (l limit) judge(life []sample) growth {
	g := growth{limit: l}
	if len(life) < enough {
		return g
	}
	quarter := len(life) / 4
	g.start, g.end, g.judged = l.median(life[:quarter]), l.median(life[len(life)-quarter:]), true
	return g
}

func (l limit) median(samples []sample) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, s.metrics[l.metric])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func (g growth) flat() bool { return g.judged && g.end-g.start <= max(g.floor, g.start/10) }

// String says what was found, in a sentence.
func (g growth) String() string {
	if !g.judged {
		return g.name + ": no life was long enough to judge; run longer"
	}
	return fmt.Sprintf("%s: from %.1f to %.1f", g.name, g.start/g.unit, g.end/g.unit)
}

// measure takes a sample of the current life. A component that has just ended has none.
func (c *component) measure(ctx context.Context) {
	measured, started := c.life()
	if measured == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := harness.Get(ctx, "http://"+c.address+"/debug/pprof/heap?gc=1"); err != nil {
		return
	}
	metrics, err := c.metrics(ctx)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == measured {
		last := len(c.samples) - 1
		c.samples[last] = append(c.samples[last], sample{time.Since(started), metrics})
	}
}

// growths judge the longest life, without its warm-up.
func (c *component) growths(warmUp time.Duration) (out []growth) {
	life := c.warm(warmUp)
	for _, l := range limits {
		out = append(out, l.judge(life))
	}
	return out
}

// warm are the samples of the longest life after its warm-up.
func (c *component) warm(warmUp time.Duration) []sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	var longest []sample
	for _, life := range c.samples {
		if len(life) > len(longest) {
			longest = life
		}
	}
	return slices.DeleteFunc(slices.Clone(longest), func(s sample) bool { return s.age < warmUp })
}

// metrics are the sums of the component's gauges and counters over all labels.
func (c *component) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := harness.Get(ctx, "http://"+c.address+"/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	sums := map[string]float64{}
	for name, family := range families {
		for _, series := range family.GetMetric() {
			sums[name] += series.GetGauge().GetValue() + series.GetCounter().GetValue()
		}
	}
	return sums, err
}
