package recommender

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// explained is what a recommender with the state of the world says about its VPA.
func (w *world) explained(now time.Time) answers.Recommender {
	w.t.Helper()
	r := New(Options{Clock: testclock.NewFakeClock(now), Log: logr.Discard(), Interval: time.Minute})
	r.State, r.loaded, r.sampled = w.State, true, true
	out, err := r.Explain(w.t.Context(), w.v.Namespace, w.v.Name)
	require.NoError(w.t, err)
	return out
}

// lastOf is the last step that set a target.
func lastOf(c answers.Container, resource string) (last engine.Step) {
	for _, s := range c.Steps {
		if s.Item == "target" && s.Field == "now."+resource {
			last = s
		}
	}
	return last
}

func percentOf(u answers.Usage, percent string) string {
	for _, p := range u.Percentiles {
		if p.Percent == percent {
			return p.Amount
		}
	}
	return ""
}

// TestWhyAnIdlePodGets250Mi: the pod's floor, which its containers share, decides and not usage.
func TestWhyAnIdlePodGets250Mi(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.idlePod("p", "a", "b")
	w.cycle()
	got := w.explained(start)
	require.True(t, got.Known)
	require.Equal(t, 1, got.Pods)
	require.Equal(t, "default@1.0.0", got.Rules.Pipeline)
	require.Len(t, got.Containers, 2)
	a := got.Containers[0]
	require.Equal(t, "a", a.Name)
	require.True(t, a.Present)
	require.Equal(t, "10m", percentOf(a.CPU, "90"), "the first bucket")
	require.Equal(t, "10000000", percentOf(a.Memory, "90"))
	require.Equal(t, []string{"50", "90", "95", "99", "100"}, percents(a.CPU))
	require.Equal(t, "1m", a.CPU.Last)
	require.Equal(t, "1", a.Memory.Last)
	for resource, want := range map[string]string{"cpu": "12m", "memory": "125Mi"} {
		last := lastOf(a, resource)
		require.Equal(t, "estimate/bounds/raise-to-minimum", last.Path(), resource)
		require.Equal(t, want, last.To, "half of the pod's")
		require.NotEmpty(t, last.At)
	}
	require.Equal(t, "container-mode", a.Steps[0].RuleSet, "whether it is scaled comes first")
	require.Equal(t, []answers.Window{{Pod: "p", Peak: "1", Ends: start.Add(24 * time.Hour)}}, a.Windows)
}

func percents(u answers.Usage) (out []string) {
	for _, p := range u.Percentiles {
		out = append(out, p.Percent)
	}
	return out
}

func TestPercentilesThatRulesUseAreReported(t *testing.T) {
	w := newWorld(t, policy.Options{Params: map[string]string{"estimate.target.cpu": "0.93", "estimate.upper.cpu": "0.999"}})
	w.idlePod("p", "a")
	w.see()
	got := w.explained(start).Containers[0]
	require.Equal(t, []string{"50", "90", "93", "95", "99", "99.9", "100"}, percents(got.CPU))
	require.Equal(t, []string{"50", "90", "95", "99", "100"}, percents(got.Memory))
}

// TestWhyAnOOMCountsOrNot: each is kept with its outcome, and those that count with the rule that
// raised them.
func TestWhyAnOOMCountsOrNot(t *testing.T) {
	w := newWorld(t, policy.Options{Params: map[string]string{"containerMaxAllowed.memory": "1400Mi"}})
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, InitContainers: []corev1.Container{{Name: "i"}}}}
	pod.Namespace, pod.Name, pod.Labels = "ns", "p", map[string]string{"app": "x"}
	w.SetPod(pod, false, start)
	w.see()
	id := model.PodID{Namespace: "ns", Name: "p"}
	now := start.Add(48 * time.Hour)
	w.Add([]model.Sample{{Pod: id, Container: "a", Resource: model.CPU, Amount: 10, At: now}, {Pod: id, Container: "a", Resource: model.Memory, Amount: 900 << 20, At: now}}, now)
	kill := func(container string, bytes int64, after time.Duration) {
		w.AddOOM(model.OOM{Pod: id, Container: container, Memory: bytes, At: now.Add(after)}, now)
	}
	kill("a", 500<<20, -36*time.Hour)
	kill("a", 500<<20, 2*time.Hour)
	kill("i", 500<<20, 0)
	kill("a", 1<<30, 0)
	w.cycle()

	got := w.explained(now)
	require.Len(t, got.Containers, 2)
	a, i := got.Containers[0], got.Containers[1]
	require.Equal(t, "i", i.Name)
	require.False(t, i.Present)
	require.Equal(t, "init_container", i.OOMs[0].Outcome)
	require.Empty(t, i.OOMs[0].CountsAs)
	require.Len(t, a.OOMs, 3)
	require.Equal(t, []string{"old", "accepted", "future"}, []string{a.OOMs[0].Outcome, a.OOMs[1].Outcome, a.OOMs[2].Outcome}, "by time")
	kept := a.OOMs[1]
	require.Equal(t, answers.OOM{Time: now, Pod: "p", Outcome: "accepted", Reported: "1Gi", CountsAs: "1288490188", Steps: kept.Steps}, kept)
	require.Len(t, kept.Steps, 1)
	require.Equal(t, "oom-bump/bump/raise", kept.Steps[0].Path())
	require.Equal(t, "1288490188", kept.Steps[0].To, "1.2 times")
	last := lastOf(a, "memory")
	require.Equal(t, "1400Mi", last.To)
	require.Equal(t, "container-caps", last.RuleSet, "the cap")

	for n := range 3 * maxOOMs {
		kill("a", int64(n), time.Duration(n)*time.Minute)
		kill("a", int64(n), 2*time.Hour+time.Duration(n))
	}
	ooms := w.explained(now).Containers[0].OOMs
	require.Len(t, ooms, 2*maxOOMs, "the last that count, and the last that do not")
	w.KeepVPAs(nil)
	require.False(t, w.explained(now).Known)
}

// TestOOMsOfContainersThatAPodDoesNotHaveAreNotKept: events may name any.
func TestOOMsOfContainersThatAPodDoesNotHaveAreNotKept(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.see()
	id := w.idlePod("p", "a")
	for i := range 3 {
		taken, _ := w.AddOOM(model.OOM{Pod: id, Container: fmt.Sprint("x", i), Memory: 1 << 30, At: start}, start)
		require.Equal(t, model.Unknown, taken)
	}
	w.AddOOM(model.OOM{Pod: id, Container: "a", Memory: 1 << 30, At: start}, start)
	require.Equal(t, []string{"a"}, slices.Collect(maps.Keys(w.Workloads()[0].ooms)))
}

// TestAnAnswerIsBounded: of many pods the largest open windows, of many containers the first.
func TestAnAnswerIsBounded(t *testing.T) {
	w := newWorld(t, policy.Options{})
	var many []string
	for n := range maxContainers + 3 {
		many = append(many, fmt.Sprintf("c%03d", n))
	}
	w.pod("sidecars", many...)
	w.see()
	for n := range maxWindows + 5 {
		id := w.pod(fmt.Sprintf("p%03d", n), "a")
		w.memory(id, "a", int64(n+1)<<20, 0)
	}
	got := w.explained(start)
	require.Len(t, got.Containers, maxContainers)
	require.Equal(t, 4, got.ContainersCut)
	a := got.Containers[0]
	require.Len(t, a.Windows, maxWindows)
	require.Equal(t, 5, a.WindowsCut)
	require.Equal(t, answers.Window{Pod: "p104", Peak: "105Mi", Ends: start.Add(24 * time.Hour)}, a.Windows[0])
	require.Equal(t, "6Mi", a.Windows[maxWindows-1].Peak)
	require.Empty(t, w.explained(start.Add(24 * time.Hour)).Containers[0].Windows, "they have ended")
}

// TestWhyAnUpperBoundIsAbsurd: with an hour of history it is multiplied by 25.
func TestWhyAnUpperBoundIsAbsurd(t *testing.T) {
	w := newWorld(t, policy.Options{})
	id := w.pod("p", "a")
	w.see()
	for n := range 61 {
		w.cpu(id, "a", 1000, time.Duration(n)*time.Minute)
	}
	w.cycle()
	got := w.explained(start.Add(time.Hour)).Containers[0]
	require.Equal(t, 61, got.Samples)
	require.Equal(t, time.Hour, got.LastSample.Sub(*got.FirstSample))
	var widened engine.Step
	for _, s := range got.Steps {
		if s.Rule == "widen-upper-bound" && s.Field == "now.cpu" {
			widened = s
		}
	}
	require.Equal(t, "upperBound", widened.Item)
	from, to := resource.MustParse(widened.From), resource.MustParse(widened.To)
	require.EqualValues(t, 25*from.MilliValue(), to.MilliValue(), "1 + 24 h / 1 h")
}

// TestTheExplainedRecommendationIsTheStatus: over random VPAs and usage, byte for byte, and the last
// step of each target is what the status says.
func TestTheExplainedRecommendationIsTheStatus(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	options := []policy.Options{
		{}, upstreamsStart,
		{Params: map[string]string{"containerMaxAllowed.cpu": "900m", "containerMaxAllowed.memory": "1Gi", "estimate.minSamples": "3"}},
		{Params: map[string]string{"estimate.target.memory": "0.37", "estimate.marginFraction": "0.333"}},
	}
	var books []*compile.Rulebook
	for _, o := range options {
		o.Cache = &compiledSets
		book, err := policy.Load(o)
		require.NoError(t, err)
		books = append(books, book)
	}
	targetsSeen := 0
	for n := range cases(300) {
		w := newWorldOf(t, books[n%len(books)])
		var ids []model.PodID
		for p := range 1 + r.Intn(3) {
			ids = append(ids, w.pod(strconv.Itoa(p), []string{"a", "b", "c"}[:1+r.Intn(3)]...))
		}
		now := start
		for cycle := range 3 {
			w.edit(func(v *vpav1.VerticalPodAutoscaler) {
				if cycle != 1 {
					v.Spec = randomVPA(r).Spec
				}
			})
			for range r.Intn(100) {
				now = now.Add(time.Duration(r.Intn(600)) * time.Second)
				id, container := ids[r.Intn(len(ids))], []string{"a", "b", "c"}[r.Intn(3)]
				w.Add([]model.Sample{{Pod: id, Container: container, Resource: model.CPU, Amount: r.Int63n(3000), At: now}}, now)
				w.Add([]model.Sample{{Pod: id, Container: container, Resource: model.Memory, Amount: r.Int63n(3 << 30), At: now}}, now)
				if r.Intn(20) == 0 {
					w.AddOOM(model.OOM{Pod: id, Container: container, Memory: r.Int63n(2 << 30), At: now}, now)
				}
			}
			of := w.see()
			got, status := w.explained(now), w.Status(of, now)
			want, err := json.Marshal(status.Recommendation)
			require.NoError(t, err)
			have, err := json.Marshal(got.Recommendation)
			require.NoError(t, err)
			require.Equal(t, string(want), string(have))
			byName := map[string]answers.Container{}
			for _, c := range got.Containers {
				byName[c.Name] = c
			}
			for _, c := range status.Recommendation.ContainerRecommendations {
				for name, target := range c.Target {
					step := lastOf(byName[c.ContainerName], string(name))
					require.Zero(t, target.Cmp(resource.MustParse(step.To)), "%s of %s is %s by %s", name, c.ContainerName, target.String(), step.Path())
					targetsSeen++
				}
			}
			w.v = w.v.DeepCopy()
			w.v.Status = *status
		}
	}
	require.Greater(t, targetsSeen, cases(1000))
}
