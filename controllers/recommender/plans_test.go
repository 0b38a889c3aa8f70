package recommender

import (
	"math/rand"
	"runtime"
	"strconv"
	"testing"
	"time"
	"weak"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
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

// TestPoliciesThatChangeGiveWhatCELGives: VPAs whose policies change from one cycle to the next, and rules that are reloaded.
func TestPoliciesThatChangeGiveWhatCELGives(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	capped, err := policy.Load(policy.Options{Cache: &compiledSets, Params: map[string]string{"containerMaxAllowed.cpu": "900m", "containerMaxAllowed.memory": "1Gi"}})
	require.NoError(t, err)
	books := []*compile.Rulebook{shippedRules(t), capped}
	view := watched([]string{"a", "b", "c"}, 300, func(i int) int64 { return int64(i) * 7 }, always(1<<30))
	s := NewState(model.UnusedGrace, logr.Discard(), nil)
	for i := range cases(200) {
		book := books[r.Intn(2)]
		v := randomVPA(r)
		v.ResourceVersion = strconv.Itoa(i)
		s.UseRules(book)
		w := s.SetVPA(v, target.Answer{Selector: labels.Everything()})
		want := Recommend(book.Default().Interpreted(), v, view, true)
		for name, got := range map[string]Result{"code": Recommend(book.Default(), v, view, true), "state": s.recommend(w, view, true)} {
			require.Equal(t, want.Recommendations, got.Recommendations, name)
			require.Equal(t, want.Failed, got.Failed, name)
			require.Len(t, got.Explained, len(want.Explained))
			for i := range want.Explained {
				require.Equal(t, want.Explained[i].Trace.Steps(), got.Explained[i].Trace.Steps(), name)
			}
		}
	}
}

// TestAPolicyIsReadOnceUntilItChanges: VPAs without one share theirs.
func TestAPolicyIsReadOnceUntilItChanges(t *testing.T) {
	rules, others := shippedRules(t), shippedRules(t)
	s := NewState(model.UnusedGrace, logr.Discard(), nil)
	version := 0
	get := func(name, cpu string, by *compile.Rulebook) *effective {
		v := aVPA()
		if cpu != "" {
			v = aVPA(vpav1.ContainerResourcePolicy{ContainerName: "*", MaxAllowed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}})
		}
		version++
		v.Name, v.ResourceVersion = name, strconv.Itoa(version)
		s.UseRules(by)
		return s.effective(s.SetVPA(v, target.Answer{Selector: labels.Everything()}), "app")
	}
	first := get("a", "1", rules)
	require.Same(t, rules.Default(), first.plan)
	require.Same(t, first, get("a", "1000m", rules), "the same amount, written differently")
	require.Same(t, first.plan, get("b", "1", rules).plan)
	require.NotSame(t, first, get("a", "2", rules), "the policy was edited")
	require.Same(t, others.Default(), get("a", "2", others).plan, "the rules were reloaded")
	require.Same(t, get("a", "", others), get("b", "", others), "no policy is no policy")
}

// TestAWorkloadWithoutPodsKeepsNoRulesOfBefore: the soak saw the recommender grow with each reload, by all that was compiled for it.
func TestAWorkloadWithoutPodsKeepsNoRulesOfBefore(t *testing.T) {
	s := NewState(model.UnusedGrace, logr.Discard(), nil)
	s.UseRules(shippedRules(t))
	v := aVPA(vpav1.ContainerResourcePolicy{ContainerName: "*", MaxAllowed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}})
	w := s.SetVPA(v, target.Answer{Selector: labels.Everything()})
	s.effective(w, "app")
	require.Len(t, w.policies, 1)
	s.UseRules(s.rules)
	require.Len(t, w.policies, 1, "the same rules")
	s.UseRules(shippedRules(t)) // nobody asks about a container again
	require.Empty(t, w.policies)
}

// TestTheHistoryOfADeletedVPAKeepsNoRules: the soak saw the recommender grow with each VPA that was deleted, by the rules of its time.
func TestTheHistoryOfADeletedVPAKeepsNoRules(t *testing.T) {
	s := NewState(model.UnusedGrace, logr.Discard(), nil)
	s.UseRules(shippedRules(t))
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	before := func() weak.Pointer[engine.Plan] {
		w := s.SetVPA(aVPA(vpav1.ContainerResourcePolicy{ContainerName: "*"}), target.Answer{Selector: labels.Everything()})
		s.SetPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.VPA.Namespace, Name: "web-1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}, true, now)
		s.Govern()
		s.Add([]model.Sample{{Pod: model.PodID{Namespace: w.VPA.Namespace, Name: "web-1"}, Container: "app", Resource: model.Memory, Amount: 1 << 20, At: now}}, now)
		require.NotEmpty(t, Recommend(w.Chosen.Plan, w.VPA, w.model.View(), false).Recommendations)
		return weak.Make(w.Chosen.Plan)
	}()
	require.NotNil(t, before.Value())
	s.KeepVPAs(nil)
	s.UseRules(shippedRules(t))
	runtime.GC()
	require.Nil(t, before.Value())
	require.Equal(t, 1, s.cluster.Aggregates(), "its usage is kept")
}
