package recommender

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// randomPolicy sets some of the fields of a container policy.
func randomPolicy(r *rand.Rand, name string) vpav1.ContainerResourcePolicy {
	p := vpav1.ContainerResourcePolicy{ContainerName: name}
	list := func() corev1.ResourceList {
		out := corev1.ResourceList{}
		if r.Intn(2) == 0 {
			out[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.Int63n(4)*700, resource.DecimalSI)
		}
		if r.Intn(2) == 0 {
			out[corev1.ResourceMemory] = *resource.NewQuantity(r.Int63n(4)<<29, resource.BinarySI)
		}
		return out
	}
	if r.Intn(2) == 0 {
		p.MinAllowed = list()
	}
	if r.Intn(2) == 0 {
		p.MaxAllowed = list()
	}
	if r.Intn(4) == 0 {
		p.ControlledResources = &[]corev1.ResourceName{corev1.ResourceMemory}
	}
	if r.Intn(4) == 0 {
		mode := []vpav1.ContainerScalingMode{vpav1.ContainerScalingModeOff, vpav1.ContainerScalingModeAuto}[r.Intn(2)]
		p.Mode = &mode
	}
	return p
}

func randomVPA(r *rand.Rand) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(rune('a' + r.Intn(3)))}}
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{}
	for _, name := range []string{"a", "b", "*"} {
		if r.Intn(2) == 0 {
			v.Spec.ResourcePolicy.ContainerPolicies = append(v.Spec.ResourcePolicy.ContainerPolicies, randomPolicy(r, name))
		}
	}
	return v
}

// TestFoldedPlansRecommendTheSame: with a policy folded in, without, and as CEL evaluates the rules; for VPAs whose
// policies change from one cycle to the next, and rules that are reloaded.
func TestFoldedPlansRecommendTheSame(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	capped, err := policy.Load(policy.Options{Params: map[string]string{"container-caps.maxCPU": "900m", "container-caps.maxMemory": "1Gi"}})
	require.NoError(t, err)
	plans := []*engine.Plan{shippedPlan(t), capped.Default()}
	interpreted := []*engine.Plan{plans[0].Interpreted(), plans[1].Interpreted()}
	containers := usage([]string{"a", "b", "c"}, 300, func(i int) int64 { return int64(i) * 7 }, always(1<<30))
	rec := &Recommender{folded: newFolded()}
	for range 200 {
		k := r.Intn(2)
		v := randomVPA(r)
		want := Recommend(interpreted[k], containers, v.Spec.ResourcePolicy, true)
		for name, got := range map[string]Result{
			"code": Recommend(plans[k], containers, v.Spec.ResourcePolicy, true), "folded": rec.recommend(plans[k], v, containers, true),
		} {
			require.Equal(t, want.Recommendations, got.Recommendations, name)
			require.Equal(t, want.Failed, got.Failed, name)
			require.Len(t, got.Explained, len(want.Explained))
			for i := range want.Explained {
				require.Equal(t, want.Explained[i].Trace.Steps(), got.Explained[i].Trace.Steps(), name)
			}
		}
	}
}

func TestFoldedPlansAreKeptWhileTheyFit(t *testing.T) {
	plan, other := shippedPlan(t), shippedPlan(t)
	vpa := func(name string) *vpav1.VerticalPodAutoscaler {
		return &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	policyOf := func(cpu string) *vpav1.ContainerResourcePolicy {
		return &vpav1.ContainerResourcePolicy{ContainerName: "*", MaxAllowed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	c := newFolded()
	get := func(v *vpav1.VerticalPodAutoscaler, of *engine.Plan, p *vpav1.ContainerResourcePolicy) *engine.Plan {
		return c.For(v, of, p, facts.Policy(p))
	}
	first := get(vpa("a"), plan, policyOf("1"))
	require.Same(t, first, get(vpa("a"), plan, policyOf("1000m")), "the same amount, written differently")
	require.NotSame(t, first, get(vpa("b"), plan, policyOf("1")))
	changed := get(vpa("a"), plan, policyOf("2"))
	require.NotSame(t, first, changed, "the policy was edited")
	require.NotSame(t, changed, get(vpa("a"), other, policyOf("2")), "the rules were reloaded")
	require.Same(t, get(vpa("a"), plan, nil), get(vpa("b"), plan, nil), "no policy is no policy")

	c.Sweep()
	kept := get(vpa("b"), plan, policyOf("1"))
	c.Sweep()
	require.Len(t, c.plans, 1, "what nobody asked for is gone")
	require.Same(t, kept, get(vpa("b"), plan, policyOf("1")))
}
