package facts_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// podPlan is the shipped pipeline with pod-level resources on, compiled once.
func podPlan(t testing.TB) *engine.Plan {
	t.Helper()
	plan, err := podPlanOnce()
	require.NoError(t, err)
	return plan
}

var podPlanOnce = sync.OnceValues(func() (*engine.Plan, error) { return podPlanWith(nil) })

func podPlanWith(params map[string]string) (*engine.Plan, error) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"PodLevelResources": true}, Params: params})
	if err != nil {
		return nil, err
	}
	return book.Default(), nil
}

var bothRequests = facts.PodRequests{CPU: true, Memory: true}

// bounds reads lists in the order of facts.BoundNames; missing ones repeat the first.
func bounds(t *testing.T, lists ...string) facts.Bounds {
	out := facts.NewBounds()
	for i := range out {
		out[i] = facts.Resources(list(t, lists[min(i, len(lists)-1)]))
	}
	return out
}

func showBounds(b facts.Bounds) []string {
	var out []string
	for i, name := range facts.BoundNames {
		out = append(out, name+" "+show(facts.ResourceList(b[i])))
	}
	return out
}

func podContainer(t *testing.T, name string, p *vpav1.ContainerResourcePolicy, lists ...string) facts.PodContainer {
	return facts.PodContainer{Name: name, Policy: facts.Policy(p), Bounds: bounds(t, lists...)}
}

func podPolicy(t *testing.T, minAllowed, maxAllowed string, controlled ...corev1.ResourceName) *lang.Record {
	p := &vpav1.PodPolicies{MinAllowed: list(t, minAllowed), MaxAllowed: list(t, maxAllowed)}
	if controlled != nil {
		p.ControlledResources = &controlled
	}
	return facts.PodPolicy(&vpav1.PodResourcePolicy{PodPolicies: p})
}

// theAEPsContainers are from the AEP's status example.
func theAEPsContainers(t *testing.T) []facts.PodContainer {
	return []facts.PodContainer{
		podContainer(t, "main", nil, "cpu=30m memory=100Mi", "cpu=20m memory=80Mi", "cpu=50m memory=120Mi", "cpu=50m memory=120Mi"),
		podContainer(t, "sidecar1", nil, "cpu=20m memory=25Mi", "cpu=10m memory=20Mi", "cpu=30m memory=30Mi", "cpu=30m memory=30Mi"),
	}
}

func TestAPodIsRecommendedWhatItsContainersAreTogether(t *testing.T) {
	containers := theAEPsContainers(t)
	pod, failed := facts.RecommendPod(podPlan(t), containers, facts.PodPolicy(nil), bothRequests, nil)
	require.Empty(t, failed)
	require.Equal(t, []string{"target cpu=50m memory=125Mi", "lowerBound cpu=30m memory=100Mi", "upperBound cpu=80m memory=150Mi", "uncappedTarget cpu=80m memory=150Mi"}, showBounds(pod))
	require.Equal(t, showBounds(theAEPsContainers(t)[0].Bounds), showBounds(containers[0].Bounds))
}

func TestTheBoundsOfAPodChangeItsContainersInPlace(t *testing.T) {
	containers := theAEPsContainers(t)
	target := containers[0].Bounds[0] // whoever holds the record sees the change
	trace := &engine.Trace{}
	pod, failed := facts.RecommendPod(podPlan(t), containers, podPolicy(t, "cpu=100m", "memory=50Mi"), bothRequests, trace)
	require.Empty(t, failed)
	require.Equal(t, []string{"target cpu=100m memory=50Mi", "lowerBound cpu=60m memory=40Mi", "upperBound cpu=160m memory=60Mi", "uncappedTarget cpu=80m memory=150Mi"}, showBounds(pod))
	require.Equal(t, []string{"target cpu=60m memory=40Mi", "lowerBound cpu=40m memory=32Mi", "upperBound cpu=100m memory=48Mi", "uncappedTarget cpu=50m memory=120Mi"}, showBounds(containers[0].Bounds))
	require.Equal(t, "cpu=60m memory=40Mi", show(facts.ResourceList(target)))

	step, ok := trace.Last("main", "target.cpu")
	require.True(t, ok)
	require.Equal(t, "pod-shares/apply/target 30m 60m", step.Path()+" "+step.From+" "+step.To)
	step, ok = trace.Last("target", "now.cpu")
	require.True(t, ok)
	require.Equal(t, "pod-bounds/target/min 50m 100m", step.Path()+" "+step.From+" "+step.To)
}

func TestTheTraceSaysWhatStaysWithThePod(t *testing.T) {
	trace := &engine.Trace{}
	containers := []facts.PodContainer{podContainer(t, "main", &vpav1.ContainerResourcePolicy{MaxAllowed: list(t, "cpu=200m")}, "cpu=100m")}
	pod, failed := facts.RecommendPod(podPlan(t), containers, podPolicy(t, "cpu=1", ""), bothRequests, trace)
	require.Empty(t, failed)
	require.Equal(t, "cpu=1", show(facts.ResourceList(pod[0])))
	require.Equal(t, "cpu=200m", show(facts.ResourceList(containers[0].Bounds[0])))
	var notes []string
	for _, s := range trace.Steps() {
		if s.Reason != "" {
			notes = append(notes, s.Item+": "+s.Path()+": "+s.Reason)
		}
	}
	require.Equal(t, []string{"target: pod-shares/leftover/above-maximums: the containers cannot take all of the pod's cpu; the rest stays at pod level"}, notes)
}

func TestNothingIsRecommendedForAPodWithoutNeed(t *testing.T) {
	off, err := policy.Load(policy.Options{Cache: &compiledSets})
	require.NoError(t, err)
	lowering := podPolicy(t, "", "cpu=10m memory=10Mi")
	for name, run := range map[string]func([]facts.PodContainer) (facts.Bounds, []*engine.RuleError){
		"gate off": func(c []facts.PodContainer) (facts.Bounds, []*engine.RuleError) {
			return facts.RecommendPod(off.Default(), c, lowering, bothRequests, nil)
		},
		"no pod-level requests": func(c []facts.PodContainer) (facts.Bounds, []*engine.RuleError) {
			return facts.RecommendPod(podPlan(t), c, lowering, facts.PodRequests{}, nil)
		},
		"nothing controlled": func(c []facts.PodContainer) (facts.Bounds, []*engine.RuleError) {
			return facts.RecommendPod(podPlan(t), c, podPolicy(t, "", "cpu=10m", "nvidia.com/gpu"), bothRequests, nil)
		},
	} {
		containers := theAEPsContainers(t)
		pod, failed := run(containers)
		require.Empty(t, failed, name)
		require.Equal(t, showBounds(facts.NewBounds()), showBounds(pod), name)
		for i, c := range theAEPsContainers(t) {
			require.Equal(t, showBounds(c.Bounds), showBounds(containers[i].Bounds), name)
		}
	}
	pod, failed := facts.RecommendPod(podPlan(t), nil, lowering, bothRequests, nil)
	require.Empty(t, failed)
	require.Equal(t, showBounds(facts.NewBounds()), showBounds(pod), "no containers")
}

// An overlay's rule fails for the second container after the first was scaled.
func TestWhenARuleFailsNothingIsHalfScaled(t *testing.T) {
	overlay := `
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: failing}
spec:
  change:
  - after: pod-shares/apply/target
    rule: {name: fail, when: container == 'sidecar1' && 1 / (index - 1) > 0, unset: 'lowerBound[resource]'}
`
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "failing.yaml"), []byte(overlay), 0o600))
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: dir, Gates: map[string]bool{"PodLevelResources": true}})
	require.NoError(t, err)
	plan := policy.For(book, &vpav1.VerticalPodAutoscaler{}).Plan

	containers := theAEPsContainers(t)
	pod, failed := facts.RecommendPod(plan, containers, podPolicy(t, "cpu=100m", ""), bothRequests, nil)
	require.Len(t, failed, 1)
	require.ErrorContains(t, failed[0], "rule pod-shares/apply/fail")
	require.ErrorContains(t, failed[0], "for sidecar1: when: division by zero")
	require.Equal(t, showBounds(facts.NewBounds()), showBounds(pod))
	for i, c := range theAEPsContainers(t) {
		require.Equal(t, showBounds(c.Bounds), showBounds(containers[i].Bounds))
	}
}

// TestAnyContainersKeepWhatIsPromised runs random containers, policies and flags.
func TestAnyContainersKeepWhatIsPromised(t *testing.T) {
	flagged, err := podPlanWith(map[string]string{"podMaxAllowed.cpu": "300m", "podMaxAllowed.memory": "500", "containerMaxAllowed.cpu": "100m", "containerMaxAllowed.memory": "200"})
	require.NoError(t, err)
	plans := []*engine.Plan{podPlan(t), flagged}
	random := rand.New(rand.NewPCG(7, 1))
	// Small numbers make bounds meet; sometimes return the huge upper bound of a young VPA.
	amount := func() int64 {
		if random.IntN(20) == 0 {
			return 1e14
		}
		return random.Int64N(400)
	}
	resources := func(share int) *lang.Record {
		r := facts.NewBounds()[0]
		for _, name := range []string{"cpu", "memory"} {
			if random.IntN(100) < share {
				r.SetInt(name, amount())
			}
		}
		return r
	}
	limit := func(p *lang.Record) *lang.Record {
		return p.SetRecord("minAllowed", resources(40)).SetRecord("maxAllowed", resources(40))
	}
	for range 500 {
		var containers []facts.PodContainer
		var before []facts.Bounds
		for i := range random.IntN(6) {
			c := facts.PodContainer{Name: fmt.Sprint("c", i), Policy: limit(facts.Policy(nil)), Bounds: facts.NewBounds()}
			for _, name := range []string{"cpu", "memory"} {
				if random.IntN(10) > 0 {
					lower := amount()
					target := lower + amount()
					c.Bounds[0].SetInt(name, target)
					c.Bounds[1].SetInt(name, lower)
					c.Bounds[2].SetInt(name, min(target+amount(), 2e14))
					c.Bounds[3].SetInt(name, target)
				}
			}
			containers, before = append(containers, c), append(before, copyOf(c.Bounds))
		}
		podPolicy := limit(facts.PodPolicy(nil))
		plan := plans[random.IntN(2)]
		pod, failed := facts.RecommendPod(plan, containers, podPolicy, bothRequests, nil)
		require.Empty(t, failed)
		for _, name := range []string{"cpu", "memory"} {
			requirePromises(t, name, containers, before, podPolicy, pod, plan == plans[1])
		}

		again := make([]facts.PodContainer, len(containers))
		for i, c := range containers {
			again[i] = facts.PodContainer{Name: c.Name, Policy: c.Policy, Bounds: before[i]}
		}
		second, _ := facts.RecommendPod(plan, again, podPolicy, bothRequests, nil)
		require.Equal(t, showBounds(pod), showBounds(second))
	}
}

func copyOf(b facts.Bounds) facts.Bounds {
	for i := range b {
		b[i] = b[i].Copy()
	}
	return b
}

// 0 = none
func bound(policy *lang.Record, which, name string) (int64, bool) {
	r, ok := policy.Field(which).(*lang.Record)
	if !ok {
		return 0, false
	}
	v, ok := r.Int(name)
	return v, ok && v > 0
}

func requirePromises(t *testing.T, name string, containers []facts.PodContainer, before []facts.Bounds, podPolicy *lang.Record, pod facts.Bounds, flags bool) {
	t.Helper()
	var sum, sumBefore, sumUncapped, atLeast, count int64
	for i, c := range containers {
		was, ok := before[i][0].Int(name)
		now, still := c.Bounds[0].Int(name)
		require.Equal(t, ok, still)
		if !ok {
			continue
		}
		count++
		sumBefore, sum, sumUncapped = sumBefore+was, sum+now, sumUncapped+was
		least, hasLeast := bound(c.Policy, "minAllowed", name)
		most, hasMost := bound(c.Policy, "maxAllowed", name)
		if hasLeast && was >= least {
			require.GreaterOrEqual(t, now, least, "within its minimum")
		}
		if hasMost && was <= most {
			require.LessOrEqual(t, now, most, "within its maximum")
		}
		if hasLeast {
			atLeast += min(was, least)
		}
		lower, _ := c.Bounds[1].Int(name)
		upper, _ := c.Bounds[2].Int(name)
		require.LessOrEqual(t, lower, now)
		require.LessOrEqual(t, now, upper)
		require.LessOrEqual(t, upper, int64(2e14))
		uncapped, _ := c.Bounds[3].Int(name)
		require.Equal(t, was, uncapped)
	}
	target, ok := pod[0].Int(name)
	require.Equal(t, count > 0, ok)
	if !ok {
		return
	}
	want := sumBefore
	if v, ok := bound(podPolicy, "minAllowed", name); ok {
		want = max(want, v)
	}
	if v, ok := bound(podPolicy, "maxAllowed", name); ok {
		want = min(want, v)
	}
	if !flags {
		require.Equal(t, want, target, "the sum held between the bounds exactly")
	}
	if target < sumBefore && atLeast < target { // where the minimums take all, the others are left something
		require.LessOrEqual(t, sum, target, "containers fit into the pod when it was lowered")
	}
	if target > sumBefore {
		require.Less(t, sum, target+count, "no more than rounding above the pod when it was raised")
	}
	if target == sumBefore {
		require.Equal(t, sumBefore, sum)
	}
	lower, _ := pod[1].Int(name)
	upper, _ := pod[2].Int(name)
	require.LessOrEqual(t, lower, target)
	require.LessOrEqual(t, target, upper)
	uncapped, _ := pod[3].Int(name)
	require.Equal(t, sumUncapped, uncapped)
}

// BenchmarkRecommendPod runs three containers, without bounds and lowered to a maximum.
func BenchmarkRecommendPod(b *testing.B) {
	plan := podPlan(b)
	for name, policy := range map[string]*vpav1.PodResourcePolicy{
		"sum":   nil,
		"lower": {PodPolicies: &vpav1.PodPolicies{MaxAllowed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("200")}}},
	} {
		podPolicy := facts.PodPolicy(policy)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var containers []facts.PodContainer
				for i := range int64(3) {
					c := facts.PodContainer{Name: "c", Policy: facts.Policy(nil), Bounds: facts.NewBounds()}
					for j := range c.Bounds {
						c.Bounds[j].SetInt("cpu", 100*(i+1)).SetInt("memory", 100*(i+1))
					}
					containers = append(containers, c)
				}
				if _, failed := facts.RecommendPod(plan, containers, podPolicy, bothRequests, nil); failed != nil {
					b.Fatal(failed)
				}
			}
		})
	}
}
