package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
)

const (
	// cycleMetric is a histogram that both updaters keep, by step.
	cycleMetric = "vpa_updater_execution_latency_seconds"
	// patience is how long an updater may take to change its first pod: the first cycle is due after a minute.
	patience = 4 * time.Minute
	// lookEvery is how often memory and CPU are read; the updater's metrics are read every fifth time, because that costs it something.
	lookEvery = 200 * time.Millisecond
)

// result is what one updater took in its first cycle that changed pods. Times are in seconds, memory is in bytes.
type result struct {
	harness.Program
	steps   map[string]float64 // "total" is the cycle
	changed int                // pods
	most    int                // of one VPA
	span    float64            // from the first to the last change
	half    float64            // from the first to the one with which half of all that are permitted were made; 0 = it did not come
	cpu     float64            // from the start of the process to the end of the cycle
	acting  float64            // CPU from the first change on
	rss     uint64             // median from the first change on
	end     uint64             // memory when the cycle was over
	own     uint64             // and of that, what no file backs
	peak    uint64             // highest ever
	asked   float64            // evictions or resizes of the API server, refused ones included
	answer  float64            // how long it took for one of them, in the mean
	scales  float64            // how often it was asked for a scale
	events  int                // that were in the API at the end of the cycle
}

// sample is a look at a process.
type sample struct {
	at time.Time
	harness.Footprint
}

// measure runs a program until the end of its first cycle that changes pods.
func (b *bench) measure(ctx context.Context, p harness.Program, t trial) (r result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := follow(ctx, b.Config, t.inPlace)
	if err != nil {
		return r, err
	}
	before, err := b.requests(ctx)
	if err != nil {
		return r, err
	}
	begin := time.Now()
	one, address, err := b.start(p, t)
	if err != nil {
		return r, err
	}
	defer one.Stop()
	harness.Say("%s runs %s; its first cycle is due in a minute", p.Name, t.text)
	var samples []sample
	told := 0
	cycles, idle := 0.0, map[string]float64{} // that changed nothing
	for tick, n := time.NewTicker(lookEvery), 0; ; n++ {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-tick.C:
		}
		now, err := one.Footprint()
		if err != nil {
			return r, errors.Join(one.Alive(), err)
		}
		samples = append(samples, sample{time.Now(), now})
		if n%5 != 0 {
			continue
		}
		done := changes.count()
		if done == 0 && time.Since(begin) > patience {
			return r, fmt.Errorf("there was no %s within %s; see %s", t.what(), patience, one.LogFile)
		}
		if done-told >= b.Count/5 {
			harness.Say("%s: %d %ss so far, memory %s", p.Name, done, t.what(), harness.Mebibytes(float64(now.RSS)))
			told = done
		}
		metrics, err := harness.ReadMetrics(ctx, address)
		if err != nil && time.Since(begin) < time.Minute { // it is not up yet
			continue
		} else if err != nil {
			return r, errors.Join(one.Alive(), err)
		}
		ended, steps := metrics.Steps(cycleMetric)
		if ended == cycles {
			continue
		}
		if done == 0 {
			harness.Say("%s: a cycle changed nothing", p.Name)
			cycles, idle = ended, steps
			continue
		}
		if late := lateness(steps["total"] - idle["total"]); late > 0 {
			time.Sleep(time.Duration(late * float64(time.Second)))
		}
		r = summary(changes, steps, idle, samples, b.Count)
		break
	}
	r.Program = p
	if r.events, err = b.countEvents(ctx, begin); err != nil {
		return r, err
	}
	after, err := b.requests(ctx)
	if err != nil {
		return r, err
	}
	made := after.changes.Since(before.changes)
	r.asked, r.scales = made.Writes, after.scales.Since(before.scales).Reads
	if made.Writes > 0 {
		r.answer = made.WriteSeconds / made.Writes
	}
	harness.Say("%s: %d %ss in %.2f s, the cycle took %.2f s", p.Name, r.changed, t.what(), r.span, r.steps["total"])
	if b.profile {
		file := filepath.Join(b.logs, filepath.Base(p.Path)+".heap")
		if err := harness.SaveProfile(ctx, address, "heap", file); err != nil {
			return r, err
		}
		harness.Say("the heap profile is in %s", file)
	}
	return r, nil
}

// start runs a program, with flags for where to listen, for its pace, and for living without an admission controller.
func (b *bench) start(p harness.Program, t trial) (*harness.Measured, string, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	args := append(slices.Clone(p.Args), "--kubeconfig="+b.kubeconfig, "--address="+address, "--use-admission-controller-status=false")
	args = append(args, t.flags...)
	if b.profile {
		args = append(args, "--profiling")
	}
	log := filepath.Join(b.logs, fmt.Sprintf("%s-%s-%s.log", filepath.Base(p.Path), t.name, t.what()))
	one, err := harness.StartMeasured(log, nil, p.Path, args...)
	return one, address, err
}

// lateness is how many seconds after a cycle of so many the watch may still tell of its changes: an API server at its limit takes its
// time. When a cycle took all of its minute, the next one has begun.
func lateness(total float64) float64 {
	if total > 55 {
		return 0
	}
	return 3
}

// summary is what came of the cycle that has just ended. Steps are sums that include what cycles before it took.
func summary(c *changes, steps, idle map[string]float64, samples []sample, permitted int) result {
	r := result{steps: map[string]float64{}}
	for step, sum := range steps {
		r.steps[step] = sum - idle[step]
	}
	list := c.within(r.steps["total"] + lateness(r.steps["total"]))
	r.changed = len(list)
	first, last := list[0].at, list[len(list)-1].at
	r.span = last.Sub(first).Seconds()
	if half := (permitted + 1) / 2; half > 0 && len(list) >= half {
		r.half = list[half-1].at.Sub(first).Seconds()
	}
	of := map[client.ObjectKey]int{}
	for _, one := range list {
		of[one.workload]++
		r.most = max(r.most, of[one.workload])
	}
	var rss []uint64
	var start harness.Footprint // before the first change
	for _, s := range samples {
		if s.at.Before(first) {
			start = s.Footprint
		} else if !s.at.After(last) {
			rss = append(rss, s.RSS)
		}
	}
	end := samples[len(samples)-1].Footprint
	if len(rss) == 0 { // it was over between two looks
		rss = append(rss, end.RSS)
	}
	r.cpu, r.acting = end.CPU, end.CPU-start.CPU
	r.rss, r.end, r.own, r.peak = uint64(harness.Median(rss)), end.RSS, end.Own, end.Peak
	return r
}

// requests are those for what nobody in the lab but an updater asks an API server.
type requests struct{ changes, scales harness.Requests }

func (b *bench) requests(ctx context.Context) (r requests, err error) {
	r.changes, err = harness.CountRequests(ctx, b.api, func(a harness.Asked) bool {
		return a.Resource == "pods" && (a.Subresource == "eviction" || a.Subresource == "resize")
	})
	if err != nil {
		return r, err
	}
	r.scales, err = harness.CountRequests(ctx, b.api, func(a harness.Asked) bool { return a.Subresource == "scale" })
	return r, err
}

// countEvents counts those of an updater since a moment.
func (b *bench) countEvents(ctx context.Context, since time.Time) (n int, err error) {
	var list corev1.EventList
	if err := b.List(ctx, &list); err != nil {
		return 0, fmt.Errorf("listing events: %w", err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		if !e.CreationTimestamp.Time.Before(since.Truncate(time.Second)) && (strings.HasSuffix(e.Reason, "ByVPA") || e.Reason == "EvictedPod") {
			n++
		}
	}
	return n, nil
}
