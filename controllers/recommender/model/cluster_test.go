package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/facts"
)

var day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func selecting(app string) labels.Selector { return labels.SelectorFromSet(labels.Set{"app": app}) }

// aPod is a pod of namespace ns with containers and the label app.
func aPod(c *Cluster, name, app string, containers ...string) PodID {
	id := PodID{Namespace: "ns", Name: name}
	c.SetPod(id, PodSpec{Labels: map[string]string{"app": app}, Containers: containers, InitContainers: []string{"init"}, Active: true}, day)
	return id
}

func aWorkload(c *Cluster, name, app string, age time.Duration) *Workload {
	return c.SetWorkload(WorkloadID{"ns", name}, since(day.Add(-age)), "Deployment/"+app, selecting(app))
}

// since is the order of a workload that was created at a time.
func since(created time.Time) facts.Order { return facts.Order{First: -created.UnixNano()} }

func cpuAt(id PodID, container string, milli int64, after time.Duration) Sample {
	return Sample{Pod: id, Container: container, Resource: CPU, Amount: milli, At: day.Add(after)}
}

func memoryAt(id PodID, container string, bytes int64, after time.Duration) Sample {
	return Sample{Pod: id, Container: container, Resource: Memory, Amount: bytes, At: day.Add(after)}
}

func TestWhatBecomesOfSamples(t *testing.T) {
	c := NewCluster(UnusedGrace)
	id := aPod(c, "p", "x", "a")
	other := PodID{"ns", "other"}
	now := day.Add(time.Hour)
	for _, s := range []struct {
		sample Sample
		want   Taken
		why    string
	}{
		{cpuAt(id, "a", 1, 0), Accepted, "the first"},
		{cpuAt(id, "a", 1, 0), Old, "CPU of the same time"},
		{cpuAt(id, "a", 1, -time.Minute), Old, "CPU of an earlier time"},
		{cpuAt(id, "a", -1, time.Minute), Negative, "less than nothing"},
		{cpuAt(id, "a", 1<<62, 2*time.Minute), Accepted, "more than any machine has goes into the last bucket"},
		{memoryAt(id, "a", 1, 0), Accepted, "memory"},
		{memoryAt(id, "a", 1, 0), Old, "the same memory again, of a source that stands still"},
		{memoryAt(id, "a", 2, 0), Accepted, "other memory of the same time"},
		{cpuAt(id, "a", 1, 3*time.Hour), Future, "a clock that is hours ahead"},
		{Sample{Pod: id, Container: "a"}, Old, "no time at all"},
		{cpuAt(id, "init", 1, time.Minute), Init, "an init container"},
		{cpuAt(id, "b", 1, time.Minute), Unknown, "a container that the pod does not have"},
		{cpuAt(other, "a", 1, time.Minute), Unknown, "a pod that is not known"},
	} {
		require.Equal(t, s.want, c.AddSample(s.sample, now), s.why)
	}
}

func TestRulesSayHowFarAheadASampleMayBe(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := facts.DefaultWindow()
	w.ClockSkew = 10 * time.Minute
	c.SetWindow(w)
	id := aPod(c, "p", "x", "a")
	require.Equal(t, Accepted, c.AddSample(cpuAt(id, "a", 1, 10*time.Minute), day))
	require.Equal(t, Future, c.AddSample(cpuAt(id, "a", 1, 11*time.Minute), day))
	require.Equal(t, Future, c.AddOOM(OOM{Pod: id, Container: "a", At: day.Add(11 * time.Minute)}, day, nil))
}

func TestRulesSayHowLargeASampleMayBe(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := facts.DefaultWindow()
	w.MaxCPU, w.MaxMemory = 2000, 3<<30
	c.SetWindow(w)
	id := aPod(c, "p", "x", "a")
	require.Equal(t, Accepted, c.AddSample(cpuAt(id, "a", 2000, 0), day))
	require.Equal(t, Implausible, c.AddSample(cpuAt(id, "a", 2001, time.Minute), day.Add(time.Hour)))
	require.Equal(t, Accepted, c.AddSample(memoryAt(id, "a", 3<<30, 0), day))
	require.Equal(t, Implausible, c.AddSample(memoryAt(id, "a", 3<<30+1, time.Minute), day.Add(time.Hour)))
	require.Equal(t, Accepted, c.AddSample(cpuAt(id, "a", 1, time.Minute), day.Add(time.Hour)), "they do not make others old")

	require.Equal(t, Implausible, c.AddOOM(OOM{Pod: id, Container: "a", Memory: 4 << 30, At: day.Add(2 * time.Minute)}, day.Add(time.Hour), nil), "kills are no exception")
	require.Equal(t, Implausible, c.AddSample(memoryAt(id, "a", 8<<30, 30*time.Second), day.Add(time.Hour)))
	require.Equal(t, "4 samples left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 8Gi memory of container a of pod "+id.Namespace+"/p at "+
		day.Add(30*time.Second).Format(time.RFC3339)+", where at most 3Gi is accepted", c.TakeExcess().String())
	require.Empty(t, c.TakeExcess().String(), "once")
}

func TestAViewFollowsLabelsAndOutlivesPods(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	c.AddSample(cpuAt(id, "a", 100, 0), day)
	view := w.View()
	require.Equal(t, 1, view.Pods)
	require.Equal(t, 1, view.Containers[0].Samples)
	require.True(t, view.Containers[0].Present)

	aPod(c, "p", "y", "a")
	view = w.View()
	require.Zero(t, view.Pods, "the pod moved on")
	require.Equal(t, 1, view.Containers[0].Samples, "its usage did not")
	require.False(t, view.Containers[0].Present)

	c.KeepPods(nil)
	require.Equal(t, 2, c.Aggregates())
	c.CollectGarbage(day.Add(time.Hour))
	require.Equal(t, 1, c.Aggregates(), "the aggregate without samples and pods is dropped")
	c.CollectGarbage(day.Add(8*24*time.Hour - 1))
	require.Equal(t, 1, c.Aggregates())
	c.CollectGarbage(day.Add(8 * 24 * time.Hour))
	require.Zero(t, c.Aggregates(), "usage expires after eight windows")
	require.Empty(t, w.View().Containers)
}

// TestFinishedPodsKeepNoRemovedContainer: pods that a node evicted or a preemption ended stay as Failed long after a rollout.
func TestFinishedPodsKeepNoRemovedContainer(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	set := func(pod, container string, active bool) {
		c.SetPod(PodID{Namespace: "ns", Name: pod}, PodSpec{Labels: map[string]string{"app": "x"}, Containers: []string{container}, Active: active, CPURequest: container == "before"}, day)
	}
	present := func() (out []string) {
		view := w.View()
		for _, u := range view.Containers {
			_, has := w.Has(u.Container)
			require.Equal(t, u.Present, has, u.Container)
			if u.Present {
				out = append(out, u.Container)
			}
		}
		require.Equal(t, slices.Contains(out, "before"), view.PodCPU, "requests of the pod count likewise")
		return out
	}
	set("old", "before", true)
	require.Equal(t, []string{"before"}, present())
	set("old", "before", false)
	require.Equal(t, []string{"before"}, present(), "between the runs of a CronJob its pods have all finished")
	set("new", "after", true)
	require.Equal(t, []string{"after"}, present())
	set("new", "after", false)
	require.Equal(t, []string{"after", "before"}, present())
}

// TestHazard10ARestoredHistoryOutlivesASelectorThatCannotBeHad: UPSTREAM.md Appendix B 10.
func TestHazard10ARestoredHistoryOutlivesASelectorThatCannotBeHad(t *testing.T) {
	c := NewCluster(UnusedGrace)
	source := NewCluster(UnusedGrace)
	from := aWorkload(source, "v", "x", 0)
	id := aPod(source, "p", "x", "a")
	source.AddSample(cpuAt(id, "a", 100, 0), day)
	stored, _, ok := from.Checkpoint("a", day)
	require.True(t, ok)

	w := aWorkload(c, "v", "x", 0)
	require.NoError(t, w.Restore(c.Window(), "a", &stored, day))
	c.SetWorkload(w.ID, since(day), "Deployment/x", nil)
	require.Len(t, aWorkload(c, "v", "x", 0).View().Containers, 1, "the selector came back")
	c.SetWorkload(w.ID, since(day.Add(time.Hour)), "Deployment/x", selecting("x"))
	require.Len(t, w.View().Containers, 1, "the VPA was deleted and made again between two cycles")
	require.Empty(t, aWorkload(c, "v", "y", 0).View().Containers, "another target is another history")

	all := c.SetWorkload(WorkloadID{"ns", "all"}, since(day), "Deployment/x", labels.Everything())
	require.NoError(t, all.Restore(c.Window(), "a", &stored, day))
	require.Empty(t, c.SetWorkload(all.ID, since(day), "Deployment/x", selecting("x")).View().Containers, "so is another selector")
}

func TestTheOldestWorkloadGoverns(t *testing.T) {
	c := NewCluster(UnusedGrace)
	id := aPod(c, "p", "x", "a")
	young, old, twin := aWorkload(c, "young", "x", time.Hour), aWorkload(c, "old", "x", 2*time.Hour), aWorkload(c, "older-name", "x", 2*time.Hour)
	governed := func(w *Workload) int {
		n := 0
		w.Governs(func(string, *Aggregate) { n++ })
		return n
	}
	require.Equal(t, []int{0, 1, 0}, []int{governed(young), governed(old), governed(twin)})
	var observed []string
	c.Observe = func(w *Workload, s Sample, made bool) { observed = append(observed, w.ID.Name) }
	c.AddSample(cpuAt(id, "a", 1, 0), day)
	c.KeepWorkloads(map[WorkloadID]bool{young.ID: true})
	c.AddSample(cpuAt(id, "a", 1, time.Minute), day)
	c.KeepWorkloads(nil)
	c.AddSample(cpuAt(id, "a", 1, 2*time.Minute), day)
	require.Equal(t, []string{"old", "young"}, observed)
}

func TestAnOOMBecomesASampleByTheRules(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	c.AddSample(memoryAt(id, "a", 3000<<20, time.Minute), day)
	var asked [2]int64
	oom := func(after time.Duration, ok bool) Taken {
		return c.AddOOM(OOM{Pod: id, Container: "a", Memory: 1000 << 20, At: day.Add(after)}, day.Add(48*time.Hour), func(by *Workload, reported, peak int64) (int64, bool) {
			require.Same(t, w, by)
			asked = [2]int64{reported, peak}
			return 3600 << 20, ok
		})
	}
	require.Equal(t, Accepted, oom(2*time.Minute, true))
	require.Equal(t, [2]int64{1000 << 20, 3000 << 20}, asked)
	require.Equal(t, above(3600<<20), w.View().Containers[0].Memory.Percentile(1))
	require.Equal(t, Disabled, oom(3*time.Minute, false))
	require.Equal(t, Old, oom(-24*time.Hour, true))
	require.Equal(t, Unknown, c.AddOOM(OOM{Pod: id, Container: "b", At: day}, day, nil))
	require.Equal(t, Accepted, oom(4*time.Minute, true))
	require.Equal(t, int64(3000<<20), asked[1], "what was made up is no base for the next one")
}

// TestChangesAreNoticed: what is not noticed is neither recommended anew nor written.
func TestChangesAreNoticed(t *testing.T) {
	c := NewCluster(UnusedGrace)
	w := aWorkload(c, "v", "x", 0)
	id := aPod(c, "p", "x", "a")
	require.True(t, w.TakeChanged())
	require.False(t, w.TakeChanged())
	revision := func() uint64 { return w.Revision("a") }
	before := revision()
	step := func(why string, data bool, f func()) {
		t.Helper()
		f()
		require.True(t, w.TakeChanged(), why)
		require.Equal(t, data, revision() != before, why)
		before = revision()
	}
	step("a sample", true, func() { c.AddSample(cpuAt(id, "a", 1, 0), day) })
	step("a peak", true, func() { c.AddSample(memoryAt(id, "a", 1, 0), day) })
	c.AddSample(memoryAt(id, "a", 1, time.Minute), day)
	require.False(t, w.TakeChanged(), "no peak")
	step("another pod", false, func() { aPod(c, "q", "x", "a") })
	step("a pod is gone, and its peak is history", true, func() { c.KeepPods(map[PodID]bool{{"ns", "q"}: true}) })
	step("history expires", true, func() { c.CollectGarbage(day.Add(9 * 24 * time.Hour)) })
	step("no pods are known", false, func() { c.SetWorkload(w.ID, since(day), "Deployment/x", nil) })
}

// TestManyWorkloadsOfOneGroup take a moment. With each link sorted anew it would be an hour.
func TestManyWorkloadsOfOneGroup(t *testing.T) {
	const n = 200_000
	c := NewCluster(UnusedGrace)
	hang.Within(t, func() {
		for i := range n {
			c.SetWorkload(WorkloadID{"ns", fmt.Sprint("v", i)}, since(day), "x", selecting("x"))
		}
		aPod(c, "p", "x", "a")
	})
	require.Equal(t, 1, c.Workload(WorkloadID{"ns", "v7"}).Pods())
}

// TestWorkloadsAreFoundByTheirMostSelectiveLabel: VPAs are known before pods, and most have a
// label in common.
func TestWorkloadsAreFoundByTheirMostSelectiveLabel(t *testing.T) {
	c := NewCluster(UnusedGrace)
	for i := range 100 {
		c.SetWorkload(WorkloadID{"ns", fmt.Sprint("v", i)}, since(day), "x", labels.SelectorFromSet(labels.Set{"component": "web", "instance": fmt.Sprint(i)}))
	}
	require.LessOrEqual(t, len(c.namespaces["ns"].asking[label{"component", "web"}]), 1)
}

func TestTheWindowOfPodsOfNobody(t *testing.T) {
	c := NewCluster(UnusedGrace)
	hourly := facts.Window{CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour, Interval: time.Hour, Count: 2}
	id := aPod(c, "p", "x", "a")
	c.SetWindow(hourly)
	c.AddSample(memoryAt(id, "a", 1e9, 0), day)
	other := aPod(c, "q", "y", "a")
	require.Equal(t, hourly, c.pods[id].containers[0].aggregate.Window)
	require.Equal(t, hourly, c.pods[other].containers[0].aggregate.Window)
	require.Equal(t, day.Add(time.Hour), c.pods[id].containers[0].windowEnd)
}

// TestLinksAreThoseOfTheLabels holds the indexes against trying every selector on every pod.
func TestLinksAreThoseOfTheLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := NewCluster(UnusedGrace)
	selectors := map[string]labels.Selector{}
	pods := map[string]labels.Set{}
	texts := []string{"a=1", "a=1,b=2", "a in (1,2)", "!c", "b", "a!=1", "c=1,a in (2)", "", "a in (2),b notin (1)", "b=1"}
	random := func() labels.Set {
		set := labels.Set{}
		for _, k := range []string{"a", "b", "c"} {
			if v := r.IntN(4); v > 0 {
				set[k] = fmt.Sprint(v)
			}
		}
		return set
	}
	for range 3000 {
		name := fmt.Sprint(r.IntN(12))
		switch r.IntN(6) {
		case 0, 1:
			pods[name] = random()
			c.SetPod(PodID{"ns", name}, PodSpec{Labels: pods[name], Containers: []string{"a"}, Active: true}, day)
		case 2:
			delete(pods, name)
			keep := map[PodID]bool{}
			for pod := range pods {
				keep[PodID{"ns", pod}] = true
			}
			c.KeepPods(keep)
		case 3, 4:
			s, err := labels.Parse(texts[r.IntN(len(texts))])
			require.NoError(t, err)
			if r.IntN(8) == 0 {
				s = nil
			}
			selectors[name] = s
			c.SetWorkload(WorkloadID{"ns", name}, since(day), "x", s)
		case 5:
			c.CollectGarbage(day)
		}
		for id, s := range selectors {
			want := 0
			for _, set := range pods {
				if s != nil && s.Matches(set) {
					want++
				}
			}
			require.Equal(t, want, c.Workload(WorkloadID{"ns", id}).Pods(), "selector %v of %v", s, pods)
		}
		set := random()
		any := false
		for _, s := range selectors {
			any = any || s != nil && s.Matches(set)
		}
		require.Equal(t, any, c.Selected("ns", set), "%v", set)
	}
	c.KeepWorkloads(nil)
	c.KeepPods(nil)
	c.CollectGarbage(day)
	require.Empty(t, c.namespaces, "nothing is left behind")
}
