package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

var updaterBenchmark = benchmark{
	name: "updater", component: "updater",
	about:  "the updater's first cycle, with all pods out of range: pods evicted, time, CPU, memory (10 minutes)",
	trials: []string{"default", "fast"},
	vpas:   1000, replicas: 2, rounds: 1,
	prepare: func(ctx context.Context, l *lab) (measurer, error) {
		return &updaters{l}, l.populate(ctx)
	},
}

type updaters struct{ *lab }

// paceOf is how fast the updater of a trial may ask the API server.
func paceOf(trial string) []string {
	if trial == "fast" {
		return []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}
	}
	return nil
}

func (u *updaters) title(trial string) string {
	flags := cmp.Or(strings.Join(paceOf(trial), " "), "default flags")
	return fmt.Sprintf("updater/%s, %s: %d VPAs, %d pods out of range, of which a cycle may evict one per VPA", trial, flags, u.vpas, u.pods())
}

const (
	// firstEviction is the longest wait for an updater to evict its first pod: the first cycle starts
	// after a minute.
	firstEviction = 4 * time.Minute
	evictedPods   = "vpa_updater_evicted_pods_total"
)

// evictions are how many pods an updater has evicted, and when.
type evictions struct {
	count       float64
	first, last time.Time
}

func (e *evictions) see(evicted float64, now time.Time) {
	if evicted == e.count {
		return
	}
	if e.count == 0 {
		e.first = now
	}
	e.count, e.last = evicted, now
}

// measure runs an updater until the end of its first cycle that evicts pods.
func (u *updaters) measure(ctx context.Context, p program, trial string) ([]value, error) {
	if err := u.waitForPods(ctx); err != nil {
		return nil, err
	}
	if err := u.renewVPAs(ctx, outOfRange); err != nil {
		return nil, err
	}
	running, err := u.start(p, trial, nil, append([]string{"--use-admission-controller-status=false"}, paceOf(trial)...))
	if err != nil {
		return nil, err
	}
	defer running.end()
	stop := watch(running.Pid())
	var evicted evictions
	var before, after cycleEnd // before: of the last cycle that evicted nothing
	err = running.poll(ctx, 500*time.Millisecond, func(m metrics) (bool, error) {
		evicted.see(m.sum(evictedPods), time.Now())
		if evicted.count == 0 && time.Since(running.started) > firstEviction {
			return false, fmt.Errorf("no pod evicted within %s; see %s", firstEviction, running.LogFile)
		}
		after.cycles, after.steps = m.steps(updaterCycles)
		if evicted.count > 0 && after.cycles > before.cycles {
			return true, nil
		}
		before = after
		return false, nil
	})
	seen := stop()
	if err != nil {
		return nil, err
	}
	return updaterValues(evicted, before, after, seen, u.vpas), nil
}

// updaterValues are of the cycle that has just ended, and in which one eviction for each VPA was
// permitted.
func updaterValues(evicted evictions, before, after cycleEnd, seen samples, permitted int) []value {
	during, end := seen.between(evicted.first, evicted.last), seen.last()
	out := append([]value{
		{"VPAs", count, float64(permitted)},
		{"pods evicted in the first cycle", count, evicted.count},
		{"· of those permitted", percent, evicted.count / float64(permitted)},
		{"first to last eviction", seconds, evicted.last.Sub(evicted.first).Seconds()},
		{"cycle", seconds, after.mean(before, "total")},
	}, stepValues(before, after)...)
	return append(out,
		value{"CPU since the start", seconds, end.CPU},
		value{"· since the first eviction", seconds, seen.between(evicted.first, end.at.Add(1)).cpu()},
		value{"RSS during evictions, median", mebibytes, during.rss()},
		value{"RSS, peak", mebibytes, float64(end.Peak)},
	)
}

// outOfRange is a VPA whose pods are below what it recommends for them.
func outOfRange(i int) *vpav1.VerticalPodAutoscaler {
	mode := vpav1.UpdateModeRecreate
	v := vpa(i)
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
	target := amounts("50m", "64Mi")
	return recommended(v, vpav1.RecommendedContainerResources{ContainerName: "app",
		LowerBound: amounts("40m", "48Mi"), Target: target, UncappedTarget: target, UpperBound: amounts("100m", "128Mi")})
}

var recommenderBenchmark = benchmark{
	name: "recommender", component: "recommender",
	about:  "cycles of the recommender: time, CPU, memory (12 minutes)",
	trials: []string{"idle"}, // metrics.k8s.io knows no pod
	vpas:   1000, replicas: 2, rounds: 1,
	prepare: func(ctx context.Context, l *lab) (measurer, error) {
		if err := l.ServeUsage(ctx, func(string) []metricsv1beta1.PodMetrics { return nil }); err != nil {
			return nil, err
		}
		return &recommenders{l}, l.populate(ctx)
	},
}

// measuredCycles are those after the first.
const measuredCycles = 3

type recommenders struct{ *lab }

func (r *recommenders) title(trial string) string {
	return fmt.Sprintf("recommender/%s, default flags: %d VPAs, %d pods; %d cycles after the first", trial, r.vpas, r.pods(), measuredCycles)
}

// measure runs a recommender until it has ended the cycles to measure.
func (r *recommenders) measure(ctx context.Context, p program, trial string) ([]value, error) {
	if err := r.renewVPAs(ctx, vpa); err != nil {
		return nil, err
	}
	var flags []string
	if p.ours { // recommend without samples as upstream does: otherwise there is no status to write
		flags = []string{"--recommendation-min-samples=0"}
	}
	running, err := r.start(p, trial, nil, flags)
	if err != nil {
		return nil, err
	}
	defer running.end()
	ends, seen, err := running.watchCycles(ctx, recommenderCycles, time.Second, measuredCycles, nil)
	if err != nil {
		return nil, err
	}
	return recommenderValues(ends, seen, r.vpas), nil
}

// recommenderValues are of all cycles but the first. Ends start with that of no cycle.
func recommenderValues(ends []cycleEnd, seen samples, vpas int) []value {
	first, last := ends[1], ends[len(ends)-1]
	measured := seen.between(first.at, last.at)
	out := append([]value{{"VPAs", count, float64(vpas)}, {"cycle, mean", seconds, last.mean(first, "total")}}, stepValues(first, last)...)
	return append(out,
		value{"first cycle", seconds, first.mean(ends[0], "total")},
		value{"CPU per minute", seconds, measured.cores() * 60},
		value{"RSS, median", mebibytes, measured.rss()},
		value{"RSS, peak", mebibytes, float64(seen.last().Peak)},
	)
}
