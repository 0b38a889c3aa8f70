package recommender

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// world is a State with one VPA, v in namespace ns, over pods with the label app: x.
type world struct {
	*State
	t       *testing.T
	version int
	found   target.Answer
	v       *vpav1.VerticalPodAutoscaler
}

// cases is how many of so many random cases run: with -short, as in `make test`, a fifth.
func cases(number int) int {
	if testing.Short() {
		return number / 5
	}
	return number
}

// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

func newWorld(t *testing.T, o policy.Options) *world {
	t.Helper()
	o.Cache = &compiledSets
	book, err := policy.Load(o)
	require.NoError(t, err)
	return newWorldOf(t, book)
}

func newWorldOf(t *testing.T, book *compile.Rulebook) *world {
	t.Helper()
	w := &world{State: NewState(model.UnusedGrace, logr.Discard(), nil), t: t, v: aVPA(),
		found: target.Answer{Selector: labels.SelectorFromSet(labels.Set{"app": "x"})}}
	w.UseRules(book)
	return w
}

// edit changes the VPA as its owner would.
func (w *world) edit(change func(*vpav1.VerticalPodAutoscaler)) *Workload {
	w.v = w.v.DeepCopy()
	change(w.v)
	w.v.Generation++
	return w.see()
}

// see takes the VPA in, as it is.
func (w *world) see() *Workload {
	w.version++
	w.v.ResourceVersion = strconv.Itoa(w.version)
	return w.SetVPA(w.v, w.found)
}

func (w *world) pod(name string, containers ...string) model.PodID {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "x"}}}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c})
	}
	w.SetPod(pod, false, start)
	return model.PodID{Namespace: "ns", Name: name}
}

// idle samples containers that use next to nothing, so that their targets are the minimums.
func (w *world) idle(id model.PodID, containers ...string) {
	for _, c := range containers {
		w.Add([]model.Sample{{Pod: id, Container: c, Resource: model.CPU, Amount: 1, At: start}, {Pod: id, Container: c, Resource: model.Memory, Amount: 1, At: start}}, start)
	}
}

// idlePod is a pod whose containers were sampled.
func (w *world) idlePod(name string, containers ...string) model.PodID {
	id := w.pod(name, containers...)
	w.idle(id, containers...)
	return id
}

// cycle evaluates the VPA and writes its status, if that changed.
func (w *world) cycle() (written bool) {
	w.t.Helper()
	u := w.Update(w.SetVPA(w.v, w.found), start)
	if u == nil {
		return false
	}
	w.v = w.v.DeepCopy()
	w.v.Status = *u.Status
	w.see()
	require.Nil(w.t, w.Update(w.SetVPA(w.v, w.found), start), "a status that was written is as it should be")
	return true
}

func (w *world) condition(t vpav1.VerticalPodAutoscalerConditionType) *vpav1.VerticalPodAutoscalerCondition {
	for i := range w.v.Status.Conditions {
		if w.v.Status.Conditions[i].Type == t {
			return &w.v.Status.Conditions[i]
		}
	}
	return nil
}

func (w *world) containers() []string {
	var out []string
	if w.v.Status.Recommendation != nil {
		for _, c := range w.v.Status.Recommendation.ContainerRecommendations {
			out = append(out, c.ContainerName)
		}
	}
	return out
}

func (w *world) memory(id model.PodID, container string, bytes int64, after time.Duration) {
	w.Add([]model.Sample{{Pod: id, Container: container, Resource: model.Memory, Amount: bytes, At: start.Add(after)}}, start.Add(after))
}

func TestAStatusIsWrittenWhenItChanges(t *testing.T) {
	w := newWorld(t, policy.Options{})
	require.True(t, w.cycle())
	require.Equal(t, "No pods match this VPA object", w.condition(vpav1.NoPodsMatched).Message)
	require.Equal(t, corev1.ConditionFalse, w.condition(vpav1.RecommendationProvided).Status)
	require.False(t, w.cycle())

	id := w.idlePod("p", "a")
	require.True(t, w.cycle())
	require.Nil(t, w.condition(vpav1.NoPodsMatched))
	require.Equal(t, corev1.ConditionTrue, w.condition(vpav1.RecommendationProvided).Status)
	require.Equal(t, "little usage is known yet, and bounds are wide, of container a", w.condition(vpav1.LowConfidence).Message)
	require.False(t, w.cycle())

	w.memory(id, "a", 1e10, 0)
	require.True(t, w.cycle())
	w.memory(id, "a", 1e6, time.Minute)
	require.False(t, w.cycle(), "a sample that is no peak")

	w.edit(func(v *vpav1.VerticalPodAutoscaler) {})
	require.True(t, w.cycle(), "observedGeneration")
}

func TestConfidenceComesWithHistory(t *testing.T) {
	w := newWorld(t, policy.Options{})
	id := w.idlePod("p", "a")
	for i := range 1441 {
		at := start.Add(time.Duration(i) * time.Minute)
		w.Add([]model.Sample{{Pod: id, Container: "a", Resource: model.CPU, Amount: 100, At: at}}, at)
	}
	require.True(t, w.cycle())
	require.Nil(t, w.condition(vpav1.LowConfidence))
}

// TestHazard10AFailingLookUpWipesNothing: UPSTREAM.md Appendix B 10.
func TestHazard10AFailingLookUpWipesNothing(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.idlePod("p", "a")
	require.True(t, w.cycle())
	good := w.found
	problem := &target.Unsupported{Message: "Cannot read targetRef. Reason: timeout", Transient: true}

	w.found = target.Answer{Selector: good.Selector, Problem: problem, StaleSince: start}
	require.True(t, w.cycle())
	require.Equal(t, []string{"a"}, w.containers(), "by the selector there was")
	require.Equal(t, problem.Message, w.condition(vpav1.ConfigUnsupported).Message)

	w.found = target.Answer{Selector: labels.Nothing(), Problem: problem, Unknown: true}
	w.cycle()
	require.Equal(t, []string{"a"}, w.containers(), "while unknown")

	w.found = target.Answer{Selector: labels.Nothing(), Problem: problem}
	require.True(t, w.cycle())
	require.Empty(t, w.containers(), "until it lasts too long")
	require.NotNil(t, w.condition(vpav1.NoPodsMatched))

	w.found = good
	require.True(t, w.cycle())
	require.Equal(t, []string{"a"}, w.containers())
	require.Nil(t, w.condition(vpav1.ConfigUnsupported))
}

// TestHazard14ContainersThatWereRemovedAreLeftOut: UPSTREAM.md Appendix B 14.
func TestHazard14ContainersThatWereRemovedAreLeftOut(t *testing.T) {
	for _, tt := range []struct {
		ignore string
		want   []string
		least  string
	}{{"true", []string{"a"}, "250Mi"}, {"false", []string{"a", "sidecar"}, "125Mi"}} {
		w := newWorld(t, policy.Options{Params: map[string]string{"container-mode.ignoreRemoved": tt.ignore}})
		w.idlePod("old", "a", "sidecar")
		require.True(t, w.cycle())
		w.idlePod("new", "a")
		w.cycle()
		require.Equal(t, []string{"a", "sidecar"}, w.containers(), "a pod of the old revision is left")
		w.cluster.KeepPods(map[model.PodID]bool{{Namespace: "ns", Name: "new"}: true})
		w.cycle()
		require.Equal(t, tt.want, w.containers(), "ignoreRemoved %s", tt.ignore)
		require.Equal(t, tt.least, w.v.Status.Recommendation.ContainerRecommendations[0].Target.Memory().String())
		w.cluster.KeepPods(nil)
		w.cycle()
		require.Equal(t, []string{"a", "sidecar"}, w.containers(), "without pods all that is known counts")
	}
}

func perVPA() policy.Options { return policy.Options{Gates: map[string]bool{"PerVPAConfig": true}} }

// TestPerVPAParametersOfOOMs: AEP-8026; each overrides a flag, and without it the flag counts again
// at once.
func TestPerVPAParametersOfOOMs(t *testing.T) {
	// used is what a window with an OOM of 1000Mi comes to.
	used := func(o policy.Options, p *vpav1.ContainerResourcePolicy) (model.Taken, int64) {
		w := newWorld(t, o)
		if p != nil {
			p.ContainerName = "*"
			w.edit(func(v *vpav1.VerticalPodAutoscaler) {
				v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{*p}}
			})
		} else {
			w.see()
		}
		id := w.idlePod("p", "a")
		var made int64
		w.cluster.Observe = func(_ *model.Workload, s model.Sample, _ bool) { made = s.Amount }
		taken, sample := w.AddOOM(model.OOM{Pod: id, Container: "a", Memory: 1000 << 20, At: start}, start)
		require.Equal(t, made, sample)
		return taken, made
	}
	q := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	for _, tt := range []struct {
		name   string
		o      policy.Options
		policy *vpav1.ContainerResourcePolicy
		taken  model.Taken
		made   int64
	}{
		{"flags without a policy", perVPA(), nil, model.Accepted, 1200 << 20},
		{"a ratio of its own", perVPA(), &vpav1.ContainerResourcePolicy{OOMBumpUpRatio: q("1.5")}, model.Accepted, 1500 << 20},
		{"a minimum of its own", perVPA(), &vpav1.ContainerResourcePolicy{OOMMinBumpUp: q("1000Mi")}, model.Accepted, 2000 << 20},
		{"both neutral disable it", perVPA(), &vpav1.ContainerResourcePolicy{OOMBumpUpRatio: q("1"), OOMMinBumpUp: q("0")}, model.Disabled, 0},
		{"the gate is off", policy.Options{}, &vpav1.ContainerResourcePolicy{OOMBumpUpRatio: q("1.5")}, model.Accepted, 1200 << 20},
	} {
		taken, made := used(tt.o, tt.policy)
		require.Equal(t, tt.taken, taken, tt.name)
		require.Equal(t, tt.made, made, tt.name)
	}
}

// TestPerVPAParametersOfWindows: AEP-8026; upstream never goes back to the default (UPSTREAM.md
// §2.20).
func TestPerVPAParametersOfWindows(t *testing.T) {
	w := newWorld(t, perVPA())
	w.see()
	w.idlePod("p", "a")
	window := func() (out facts.Window) {
		w.Govern()
		w.SetVPA(w.v, w.found).model.Governs(func(_ string, a *model.Aggregate) { out = a.Window })
		return out
	}
	set := func(p vpav1.ContainerResourcePolicy) {
		p.ContainerName = "a"
		w.edit(func(v *vpav1.VerticalPodAutoscaler) {
			v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{p}}
		})
	}
	shipped := facts.DefaultWindow()
	shipped.MaxCPU, shipped.MaxMemory = 10_000_000, 64<<40
	require.Equal(t, shipped, window())
	set(vpav1.ContainerResourcePolicy{MemoryAggregationInterval: &metav1.Duration{Duration: 12 * time.Hour}, MemoryAggregationIntervalCount: ptr.To[int64](5)})
	require.Equal(t, facts.Window{CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour, Interval: 12 * time.Hour, Count: 5, ZeroIsPeak: true, ClockSkew: time.Hour, MaxCPU: 10_000_000, MaxMemory: 64 << 40}, window())
	set(vpav1.ContainerResourcePolicy{MemoryAggregationIntervalSeconds: ptr.To[int32](3600)})
	require.Equal(t, facts.Window{CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour, Interval: time.Hour, Count: 8, ZeroIsPeak: true, ClockSkew: time.Hour, MaxCPU: 10_000_000, MaxMemory: 64 << 40}, window(), "the other one is the flag's again")
	w.edit(func(v *vpav1.VerticalPodAutoscaler) { v.Spec.ResourcePolicy = nil })
	require.Equal(t, shipped, window(), "at once")
}

func TestPanicAffectsItsVPAOnlyAndIsReported(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.idlePod("p", "a")
	require.True(t, w.cycle())
	before := w.v.Status.Recommendation
	w.see().Chosen.Plan = nil // what no code expects
	w.Govern()
	w.idlePod("q", "a")
	u := w.Update(w.workloads[model.WorkloadID{Namespace: "ns", Name: "v"}], start)
	require.NotNil(t, u)
	require.Equal(t, before, u.Status.Recommendation)
	w.v.Status = *u.Status
	require.Equal(t, corev1.ConditionFalse, w.condition(vpav1.RulesApplied).Status)
	require.Contains(t, w.condition(vpav1.RulesApplied).Message, "please report this")
	require.True(t, w.cycle(), "the next cycle mends it")
	require.Equal(t, corev1.ConditionTrue, w.condition(vpav1.RulesApplied).Status)
}

func TestAnUnreadableSpecLeavesTheRecommendation(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.idlePod("p", "a")
	require.True(t, w.cycle())
	w.edit(func(v *vpav1.VerticalPodAutoscaler) { v.SpecUnreadable = "spec.resourcePolicy cannot be read" })
	require.True(t, w.cycle())
	require.Equal(t, []string{"a"}, w.containers())
	require.Contains(t, w.condition(vpav1.ConfigUnsupported).Message, "spec.resourcePolicy cannot be read; the recommendation is left as it is")
}

func TestBoundsAreWrittenAsThePolicyWritesThem(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.idlePod("p", "a")
	w.edit(func(v *vpav1.VerticalPodAutoscaler) {
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "*",
			MinAllowed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1G")},
			MaxAllowed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.02")}}}}
	})
	require.True(t, w.cycle())
	c := w.v.Status.Recommendation.ContainerRecommendations[0]
	require.Equal(t, []string{"20m", "1G"}, []string{c.Target.Cpu().String(), c.Target.Memory().String()})
	w.edit(func(v *vpav1.VerticalPodAutoscaler) {
		v.Spec.ResourcePolicy.ContainerPolicies[0].MaxAllowed[corev1.ResourceCPU] = resource.MustParse("19500u")
	})
	require.True(t, w.cycle())
	require.Equal(t, "20m", w.v.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().String(), "rules reckon in milli-cores")
	require.Equal(t, []string{"25m", "250Mi"}, []string{c.UncappedTarget.Cpu().String(), c.UncappedTarget.Memory().String()})
}

func TestMemorySaverDropsPodsWithoutAVPA(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.see()
	pod := func(name, app string) {
		w.SetPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}, true, start)
	}
	pod("mine", "x")
	pod("other", "y")
	require.Equal(t, 1, w.cluster.Aggregates())
	pod("mine", "y")
	require.Zero(t, w.workloads[model.WorkloadID{Namespace: "ns", Name: "v"}].model.Pods(), "it is selected no more")
}

// TestImplausibleSamplesAreNamedOnEachPath: those of history vanished without a word.
func TestImplausibleSamplesAreNamedOnEachPath(t *testing.T) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Params: map[string]string{"plausible-usage.sample.cpu": "1500m"}})
	require.NoError(t, err)
	objects := workload("shop", "app")
	objects[2].(*appsv1.Deployment).Spec.Selector.MatchLabels = map[string]string{"app": "shop"}
	pod := podNamed("shop-new", "shop", "app")
	c := newCluster(t, objects[0], pod, objects[2])
	c.Rules = func() *compile.Rulebook { return book }
	c.History, c.Checkpoints = prometheusWith(t, []string{"shop-new"}), nil // which uses two cores
	c.cycle()
	require.Equal(t, 1, c.count("history has unusable samples"))
	require.Equal(t, 1, c.count("samples left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 2 cpu of container app of pod ns/shop-new at "))
	require.Equal(t, 1, c.count("where at most 1500m is accepted"))

	for range 2 {
		c.usage = []model.Sample{{Pod: model.PodID{Namespace: "ns", Name: "shop-new"}, Container: "app", Resource: model.CPU, Amount: 9000, At: time.Now()}}
		c.RunOnce(t.Context())
	}
	require.Equal(t, 1, c.count("metrics source returned unusable samples"), "once")
	require.Equal(t, 1, c.count("1 sample left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 9 cpu of container app of pod ns/shop-new at "))
}
