package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

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
// time.
func build(ctx context.Context, names []string, component string) (out []program, err error) {
	for _, name := range names {
		p := program{name: name}
		switch name {
		case celvpa:
			p.ours, p.args = true, []string{component}
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
