package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/harness"
)

// The components, as commands of celvpa, which are also the names of their service accounts.
const (
	recommender = "recommender"
	updater     = "updater"
	admission   = "admission-controller"
)

// The flags are those of deploy/manifests, but all that takes a minute or a day there takes seconds here: the soak is to see as many
// cycles as a long time would bring, and recommendations that follow usage.
var (
	commonArgs = []string{"--rules-reload-interval=1s", "--profiling", "--v=2",
		"--feature-gates=CPUStartupBoost=true,InPlace=true,PerVPAConfig=true,PodLevelResources=true,RequestToLimitRatio=true,MemoryPerCPURatio=true"}
	leaderArgs = []string{"--leader-elect", "--leader-elect-resource-namespace=" + system}

	componentArgs = []struct {
		name string
		args []string
	}{
		{recommender, append([]string{"--leader-elect-resource-name=vpa-recommender-lease", "--recommender-interval=10s", "--checkpoints-gc-interval=1m",
			"--confidence-interval-cpu=1m", "--confidence-interval-memory=1m", "--cpu-histogram-decay-half-life=1m", "--memory-histogram-decay-half-life=1m",
			"--memory-aggregation-interval=30s", "--pod-recommendation-min-memory-mb=50", "--target-grace-period=2m"}, leaderArgs...)},
		{updater, append([]string{"--leader-elect-resource-name=vpa-updater-lease", "--updater-interval=10s", "--eviction-rate-limit=5", "--eviction-rate-burst=10",
			"--first-cycle-evictions=10", "--in-recommendation-bounds-eviction-lifetime-threshold=1m"}, leaderArgs...)},
		{admission, []string{"--status-lease-update-interval=5s", "--webhook-probe-interval=10s"}},
	}
)

// component is one of celvpa's behind a proxy of its own. When it ends it is started again, as a kubelet would.
type component struct {
	name    string
	program string
	args    []string
	address string // of its metrics and health endpoints
	folder  string // of its logs
	proxy   *faults.Proxy
	heard   func(c *component, line harness.LogLine)

	mu      sync.Mutex
	current *harness.Celvpa
	started time.Time // of the current life
	killed  bool      // the current life is ended by the soak
	ending  bool
	logs    []string   // by life
	samples [][]sample // by life
}

// restartAfter is how long a component stays down, less than a kubelet's first back-off.
const restartAfter = 2 * time.Second

// run keeps the component running until the context ends, then stops it. The error is about a start that fails or an end that
// takes too long.
func (c *component) run(ctx context.Context) error {
	for {
		life, err := c.begin()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return c.end(life)
		case <-life.Exited():
		}
		c.ended(life)
		if !pause(ctx, restartAfter) {
			return nil
		}
	}
}

func (c *component) begin() (*harness.Celvpa, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := filepath.Join(c.folder, fmt.Sprintf("%s-%d.log", c.name, len(c.logs)+1))
	life, err := harness.Start(c.program, c.address, log, c.args, func(line harness.LogLine) { c.heard(c, line) })
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	c.current, c.started, c.killed = life, time.Now(), false
	c.samples, c.logs = append(c.samples, nil), append(c.logs, log)
	return life, nil
}

// ended takes note of a life that is over. One that the soak did not end is an error.
func (c *component) ended(life *harness.Celvpa) {
	c.mu.Lock()
	killed := c.killed
	c.current = nil
	c.mu.Unlock()
	if !killed {
		c.heard(c, harness.LogLine{"level": "error", "msg": messageExit, "error": life.Alive().Error()})
	}
}

// end stops the component as a user would.
func (c *component) end(life *harness.Celvpa) error {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	if err := life.Stop(); err != nil {
		return fmt.Errorf("stopping %s: %w; see %s", c.name, err, life.LogFile)
	}
	return nil
}

// isEnding reports whether the soak has started to stop the component for good.
func (c *component) isEnding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

// kill ends the current life by SIGKILL.
func (c *component) kill() {
	c.mu.Lock()
	life := c.current
	c.killed = life != nil
	c.mu.Unlock()
	if life != nil {
		life.Kill()
	}
}

// life is the current one, with its begin; nil between two of them.
func (c *component) life() (*harness.Celvpa, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.started
}

// ready reports why the component is not ready; nil = it is.
func (c *component) ready(ctx context.Context) error {
	_, err := harness.Get(ctx, "http://"+c.address+"/readyz")
	return err
}

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
