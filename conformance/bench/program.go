package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/celvpa/celvpa/conformance/harness"
)

// What -programs knows.
const (
	celvpa   = "celvpa"
	upstream = "upstream"
)

// program is a component that can be started.
type program struct {
	name string // for people
	ours bool   // it is celvpa's
	path string
	args []string
}

// build compiles a component of each named program into bin/. Upstream's stays there for the next
// time. celvpa decides by the shipped pipeline of that name; empty = the default one.
func build(ctx context.Context, names []string, component, pipeline string) (out []program, err error) {
	for _, name := range names {
		p := program{name: name}
		switch name {
		case celvpa:
			p.ours, p.args = true, []string{component}
			if pipeline != "" {
				p.name += " " + pipeline
				p.args = append(p.args, "--pipelines="+pipeline, "--pipeline="+pipeline)
			}
			p.path, err = harness.Build(ctx)
		case upstream:
			p.name += " " + harness.UpstreamRelease
			p.path, err = harness.BuildUpstream(ctx, component, os.Stderr)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// process is a program that runs.
type process struct {
	*harness.Process
	program
	started time.Time
	address string // of its metrics
}

// start runs a program with default flags but for those given and where it finds the API server and
// serves metrics. The command before, if any, starts it.
func (l *lab) start(p program, name string, before, flags []string) (*process, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	command := slices.Concat(before, []string{p.path}, p.args, []string{"--kubeconfig=" + l.kubeconfig, "--address=" + address}, flags)
	running, err := harness.StartMeasured(filepath.Join(l.folder, filepath.Base(p.path)+"-"+name+".log"), command[0], command[1:]...)
	if err != nil {
		return nil, err
	}
	return &process{Process: running, program: p, started: time.Now(), address: address}, nil
}

// end stops a process. How it ends is not measured.
func (p *process) end() { _ = p.Stop() }

// poll reads the metrics of a process at an interval until done. A process has a minute to start
// serving them.
func (p *process) poll(ctx context.Context, every time.Duration, done func(metrics) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, every, false, func(ctx context.Context) (bool, error) {
		if err := p.Alive(); err != nil {
			return false, err
		}
		m, err := p.scrape(ctx)
		switch {
		case err == nil:
			return done(m)
		case time.Since(p.started) < time.Minute:
			return false, nil
		}
		return false, errors.Join(p.Alive(), err)
	})
}

// sample is the footprint of a process at a moment.
type sample struct {
	at time.Time
	harness.Footprint
}

// samples are in the order of time.
type samples []sample

const sampleEvery = 200 * time.Millisecond

// watch samples a process until stopped, or until the process ends.
func watch(pid int) (stop func() samples) {
	var out samples
	ended := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			now, err := harness.FootprintOf(pid)
			if err != nil {
				return // whoever waits for the process reports its end
			}
			out = append(out, sample{time.Now(), now})
			select {
			case <-ended:
				return
			case <-time.After(sampleEvery):
			}
		}
	})
	return func() samples {
		close(ended)
		group.Wait()
		return out
	}
}

// between are the samples from one moment to another, with the last one before both.
func (s samples) between(from, to time.Time) samples {
	before := func(at time.Time) int {
		n, _ := slices.BinarySearchFunc(s, at, func(x sample, at time.Time) int { return x.at.Compare(at) })
		return n
	}
	return s[max(before(from)-1, 0):before(to)]
}

// cpu is the CPU time from the first sample to the last, in seconds.
func (s samples) cpu() float64 {
	if len(s) == 0 {
		return 0
	}
	return s.last().CPU - s[0].CPU
}

// cores are how many were in use on average.
func (s samples) cores() float64 {
	if len(s) < 2 {
		return 0
	}
	return s.cpu() / s.last().at.Sub(s[0].at).Seconds()
}

// rss is the median, in bytes.
func (s samples) rss() float64 {
	var all []float64
	for _, x := range s {
		all = append(all, float64(x.RSS))
	}
	return median(all)
}

func (s samples) last() sample {
	if len(s) == 0 {
		return sample{}
	}
	return s[len(s)-1]
}

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

// cores says where a server and its clients run, so that neither takes CPU time from the other.
type cores struct {
	pin             []string // goes before a server's program
	server, clients string   // for people
}

// divideCores gives the first core to servers, and the others to this process. Without taskset, or
// where the kernel does not permit it, both are only limited to as many.
func divideCores() cores {
	others := max(runtime.NumCPU()-1, 1)
	runtime.GOMAXPROCS(others)
	rest := fmt.Sprintf("1-%d", others)
	if runtime.NumCPU() > 1 && exec.Command("taskset", "-c", "0", "true").Run() == nil &&
		exec.Command("taskset", "-a", "-c", "-p", rest, fmt.Sprint(os.Getpid())).Run() == nil {
		return cores{pin: []string{"taskset", "-c", "0"}, server: "core 0", clients: "cores " + rest}
	}
	return cores{pin: []string{"env", "GOMAXPROCS=1"}, server: "GOMAXPROCS=1", clients: fmt.Sprintf("GOMAXPROCS=%d", others)}
}
