package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

var updaterBenchmark = benchmark{
	name: "updater", component: "updater", baseline: upstream,
	about:    "the updater's first cycle, with all pods out of range: pods changed, time, CPU, memory (10 minutes)",
	trials:   []string{"default", "fast", "resize", "resize-fast"},
	defaults: options{programs: list{upstream, celvpa}, trials: list{"default", "fast"}, vpas: 1000, replicas: 2, containers: 1, rounds: 1},
	prepare: func(ctx context.Context, l *lab) (measurer, error) {
		return &updaters{l}, l.populate(ctx)
	},
}

type updaters struct{ *lab }

// The trials differ in whether pods are resized, and in how fast the updater may ask the API
// server.
func inPlace(trial string) bool { return strings.HasPrefix(trial, "resize") }

func paceOf(trial string) []string {
	if strings.HasSuffix(trial, "fast") {
		return []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}
	}
	return nil
}

func (u *updaters) title(trial string) string {
	verb := "evict"
	if inPlace(trial) {
		verb = "resize"
	}
	flags := cmp.Or(strings.Join(paceOf(trial), " "), "default flags")
	return fmt.Sprintf("updater/%s, %s: %d VPAs, %d pods out of range, of which a cycle may %s one per VPA", trial, flags, u.vpas, u.pods(), verb)
}

// firstChange is the longest wait for an updater to change its first pod: the first cycle starts
// after a minute.
const firstChange = 4 * time.Minute

// measure runs an updater until the end of its first cycle that changes pods.
func (u *updaters) measure(ctx context.Context, p program, trial string) ([]value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := u.replaceResized(ctx); err != nil {
		return nil, err
	}
	if err := u.renewVPAs(ctx, func(i int) *vpav1.VerticalPodAutoscaler { return outOfRange(i, inPlace(trial)) }); err != nil {
		return nil, err
	}
	pods, err := follow(ctx, u.Config, inPlace(trial))
	if err != nil {
		return nil, err
	}
	changesBefore, scalesBefore, err := u.asked(ctx)
	if err != nil {
		return nil, err
	}
	one, err := u.start(p, trial, nil, append([]string{"--use-admission-controller-status=false"}, paceOf(trial)...))
	if err != nil {
		return nil, err
	}
	defer one.end()
	stop := watch(one.Pid())
	var before, after cycleEnd // before: of the last cycle that changed nothing
	err = one.poll(ctx, time.Second, func(m metrics) (bool, error) {
		changed := pods.count() > 0
		if !changed && time.Since(one.started) > firstChange {
			return false, fmt.Errorf("no pod changed within %s; see %s", firstChange, one.LogFile)
		}
		after.cycles, after.steps = m.steps("vpa_updater_execution_latency_seconds")
		if changed && after.cycles > before.cycles {
			return true, nil
		}
		before = after
		return false, nil
	})
	seen := stop()
	if err != nil {
		return nil, err
	}
	steps := map[string]float64{}
	for step, sum := range after.steps {
		steps[step] = sum - before.steps[step]
	}
	late := watchDelay(steps["total"])
	time.Sleep(late)
	out := updaterValues(pods.within(steps["total"]+late.Seconds()), steps, seen, u.vpas)
	asked, err := u.askedValues(ctx, changesBefore, scalesBefore, one.started)
	if err != nil {
		return nil, err
	}
	return append(out, asked...), one.saveHeap(ctx)
}

// watchDelay is how late the watch may deliver the changes of a cycle of so many seconds: an API
// server at its limit is slow. After a cycle that took its whole minute the next one has started.
func watchDelay(cycle float64) time.Duration {
	if cycle > 55 {
		return 0
	}
	return 3 * time.Second
}

// updaterValues are of the cycle that has just ended, and in which one change for each VPA was
// permitted.
func updaterValues(list []change, steps map[string]float64, seen samples, permitted int) []value {
	first, last := list[0].at, list[len(list)-1].at
	most, of := 0, map[client.ObjectKey]int{}
	for _, one := range list {
		of[one.workload]++
		most = max(most, of[one.workload])
	}
	during, end := seen.between(first, last), seen.last()
	out := append([]value{
		{"VPAs", count, float64(permitted)},
		{"pods changed in the first cycle", count, float64(len(list))},
		{"· of those permitted", percent, float64(len(list)) / float64(permitted)},
		{"· most of one VPA", count, float64(most)},
		{"first to last change", seconds, last.Sub(first).Seconds()},
		{"cycle", seconds, steps["total"]},
	}, stepValues(steps)...)
	return append(out,
		value{"CPU since the start", seconds, end.CPU},
		value{"· since the first change", seconds, seen.between(first, end.at.Add(1)).cpu()},
		value{"RSS during changes, median", mebibytes, during.rss()},
		value{"RSS after the cycle", mebibytes, float64(end.RSS)},
		value{"· without the program's file", mebibytes, float64(end.Own)},
		value{"RSS, peak", mebibytes, float64(end.Peak)},
	)
}

// asked counts what only updaters ask the lab's API server for.
func (u *updaters) asked(ctx context.Context) (changes, scales requests, err error) {
	changes, err = u.requests(ctx, func(a asked) bool {
		return a.name == "pods" && (a.subresource == "eviction" || a.subresource == "resize")
	})
	if err != nil {
		return changes, scales, err
	}
	scales, err = u.requests(ctx, func(a asked) bool { return a.subresource == "scale" })
	return changes, scales, err
}

func (u *updaters) askedValues(ctx context.Context, changesBefore, scalesBefore requests, since time.Time) ([]value, error) {
	changes, scales, err := u.asked(ctx)
	if err != nil {
		return nil, err
	}
	changes, scales = changes.since(changesBefore), scales.since(scalesBefore)
	var events corev1.EventList
	if err := u.List(ctx, &events); err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	written := 0
	for i := range events.Items {
		e := &events.Items[i]
		if !e.CreationTimestamp.Time.Before(since.Truncate(time.Second)) && (strings.HasSuffix(e.Reason, "ByVPA") || e.Reason == "EvictedPod") {
			written++
		}
	}
	return []value{
		{"API evictions and resizes", count, changes.writes},
		{"· mean time", seconds, changes.writeSeconds / max(changes.writes, 1)},
		{"API reads of scales", count, scales.reads},
		{"API events", count, float64(written)},
	}, nil
}

var lowerBound = amounts("40m", "48Mi") // above what pods have

// outOfRange is a VPA whose pods are below what it recommends for them.
func outOfRange(i int, inPlace bool) *vpav1.VerticalPodAutoscaler {
	mode := vpav1.UpdateModeRecreate
	if inPlace {
		mode = vpav1.UpdateModeInPlaceOrRecreate
	}
	v := vpa(i)
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
	target := amounts("50m", "64Mi")
	return recommended(v, vpav1.RecommendedContainerResources{
		ContainerName: containerName(0), LowerBound: lowerBound, Target: target, UncappedTarget: target, UpperBound: amounts("100m", "128Mi")})
}

// replaceResized deletes the pods that a trial has resized, and waits until all pods have the
// resources of their template.
func (u *updaters) replaceResized(ctx context.Context) error {
	var list corev1.PodList
	if err := u.List(ctx, &list); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	var resized []*corev1.Pod
	for i := range list.Items {
		if cpu := list.Items[i].Spec.Containers[0].Resources.Requests.Cpu(); cpu.Cmp(*lowerBound.Cpu()) >= 0 {
			resized = append(resized, &list.Items[i])
		}
	}
	err := each(ctx, fillers, len(resized), "pods deleted", func(ctx context.Context, i int) error {
		return client.IgnoreNotFound(u.Delete(ctx, resized[i], client.GracePeriodSeconds(0)))
	})
	if err != nil {
		return fmt.Errorf("deleting resized pods: %w", err)
	}
	return u.waitForPods(ctx)
}
