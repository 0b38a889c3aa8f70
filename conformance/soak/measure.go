package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/conformance/soak/flat"
)

// sample is what a component holds at a moment.
type sample struct {
	at                             time.Time
	age                            time.Duration // of the life
	rss, heap, goroutines, handles float64
}

// measured are the rules by which a component must not grow, with the value of a sample that each is about.
//
// The live heap is what is left right after a collection, which the soak asks for with each sample; the runtime does so every two
// minutes by itself. A leak raises it first, so its floor is low: rules that are compiled take some MiB for a moment. RSS also has what is garbage until the next collection, which is
// as much as the live heap again by default, and what the allocator keeps: one burst of work raises it by that much, and it stays.
// Goroutines and open files come and go with requests in flight, a handful at a time.
var measured = []struct {
	flat.Rule
	of func(sample) float64
}{
	{flat.Rule{Name: "RSS", Unit: 1 << 20, Fraction: 0.10, Floor: 16 << 20}, func(s sample) float64 { return s.rss }},
	{flat.Rule{Name: "live heap", Unit: 1 << 20, Fraction: 0.10, Floor: 4 << 20}, func(s sample) float64 { return s.heap }},
	{flat.Rule{Name: "goroutines", Unit: 1, Fraction: 0.10, Floor: 10}, func(s sample) float64 { return s.goroutines }},
	{flat.Rule{Name: "open files", Unit: 1, Fraction: 0.10, Floor: 5}, func(s sample) float64 { return s.handles }},
}

// sampleEvery is how often components are measured.
const sampleEvery = 5 * time.Second

// measure takes a sample of the current life. A component that is stopped or has just ended has none.
func (c *component) measure(ctx context.Context) {
	one := c.life()
	if one == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	profile, heap, err := c.liveHeap(ctx)
	if err != nil {
		return
	}
	m, err := scrape(ctx, c.address)
	if err != nil {
		return
	}
	now := sample{at: time.Now(), heap: heap, goroutines: m.value("go_goroutines")}
	footprint, err := harness.FootprintOf(one.Pid())
	if err != nil {
		return
	}
	proc, err := procfs.NewProc(one.Pid())
	if err != nil {
		return
	}
	handles, err := proc.FileDescriptorsLen()
	if err != nil {
		return
	}
	now.rss, now.handles = float64(footprint.RSS), float64(handles)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == one {
		now.age = now.at.Sub(c.started)
		c.keep(profile)
		life := &c.samples[len(c.samples)-1]
		*life = append(*life, now)
		c.totals.add(m)
	}
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// liveHeap has the component collect garbage and returns a profile of what is left, with its size in bytes.
func (c *component) liveHeap(ctx context.Context) (profile []byte, size float64, err error) {
	if profile, err = get(ctx, "http://"+c.address+"/debug/pprof/heap?gc=1&debug=1"); err != nil {
		return nil, 0, err
	}
	found := heapAlloc.FindSubmatch(profile)
	if found == nil {
		return nil, 0, errors.New("the heap profile does not say how much is allocated")
	}
	size, err = strconv.ParseFloat(string(found[1]), 64)
	return profile, size, err
}

// profilesAfter is the age at which a life's first profile is kept; the last one is kept as well. Whoever looks for a leak compares
// them: go tool pprof -diff_base updater-1-first.heap updater-1-last.heap.
const profilesAfter = time.Minute

// keep writes a profile to a file. It is for people: without it, the soak goes on.
func (c *component) keep(profile []byte) {
	if time.Since(c.started) < profilesAfter {
		return
	}
	file := filepath.Join(c.folder, fmt.Sprintf("%s-%d-", c.name, c.lives))
	if _, err := os.Stat(file + "first.heap"); err != nil {
		_ = os.WriteFile(file+"first.heap", profile, 0o644)
	}
	_ = os.WriteFile(file+"last.heap", profile, 0o644)
}

// verdicts judge the longest life, without its warm-up.
func (c *component) verdicts(warmUp time.Duration) (out []flat.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var longest []sample
	for _, life := range c.samples {
		if len(life) > len(longest) {
			longest = life
		}
	}
	for _, one := range measured {
		var points []flat.Point
		for _, s := range longest {
			if s.age >= warmUp {
				points = append(points, flat.Point{At: s.at, Value: one.of(s)})
			}
		}
		out = append(out, one.Rule.Judge(points))
	}
	return out
}

// counted are counters of which the report has the sums over all lives: sums of a counter, or of a histogram's counts.
var counted = []struct{ name, metric, step string }{
	{"cycles", "vpa_recommender_execution_latency_seconds", "total"},
	{"cycles", "vpa_updater_execution_latency_seconds", "total"},
	{"reviews", "vpa_admission_controller_admission_latency_seconds", ""},
	{"panics", "celvpa_recommender_panics_total", ""},
	{"panics", "celvpa_updater_panics_total", ""},
	{"lost events", "celvpa_dropped_events_total", ""},
	{"rule errors", "celvpa_rule_errors_total", ""},
}

// counters are sums over lives: of those that are over, and of the current one.
type counters struct{ past, now map[string]float64 }

func (c *counters) restart() {
	c.past, c.now = c.sums(), map[string]float64{}
}

func (c *counters) add(m metrics) {
	c.now = map[string]float64{}
	for _, one := range counted {
		if m[one.metric] != nil {
			c.now[one.name] += m.sum(one.metric, one.step)
		}
	}
}

func (c *counters) sums() map[string]float64 {
	out := maps.Clone(c.past)
	if out == nil {
		out = map[string]float64{}
	}
	for name, value := range c.now {
		out[name] += value
	}
	return out
}

// metrics are those of a process, by name.
type metrics map[string]*dto.MetricFamily

func scrape(ctx context.Context, address string) (metrics, error) {
	text, err := get(ctx, "http://"+address+"/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// value is that of a gauge without labels.
func (m metrics) value(name string) float64 {
	for _, one := range m[name].GetMetric() {
		return one.GetGauge().GetValue()
	}
	return 0
}

// sum adds up all series of a counter or a histogram; with a step, those of that step.
func (m metrics) sum(name, step string) (out float64) {
	for _, one := range m[name].GetMetric() {
		matches := step == ""
		for _, l := range one.GetLabel() {
			matches = matches || l.GetName() == "step" && l.GetValue() == step
		}
		if matches {
			out += one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return body, err
}

// cpu is the CPU time of the current life, in seconds.
func (c *component) cpu() float64 {
	one := c.life()
	if one == nil {
		return 0
	}
	footprint, err := harness.FootprintOf(one.Pid())
	if err != nil {
		return 0
	}
	return footprint.CPU
}
