package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/workloads"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// example is a workload of testdata/cases with what celvpa makes of it. The pod must be valid as
// written and as celvpa makes it.
type example struct {
	workloads.Workload
	Gates    []string                    `json:"gates,omitempty"`
	Overlays []rulesv1alpha1.RuleOverlay `json:"overlays,omitempty"`
	// Younger: the LimitRanges are younger than the pod, and refuse it as written.
	Younger bool `json:"younger,omitempty"`
	// Recommended: the recommendation is one before pod.recommend, which is run first.
	Recommended bool `json:"recommended,omitempty"`
	// Want and AtMost are by container, or "pod" for pod-level resources; what they leave out counts
	// for nothing.
	Want   map[string]corev1.ResourceRequirements `json:"want,omitempty"`
	AtMost map[string]corev1.ResourceRequirements `json:"atMost,omitempty"`
}

// TestCases are the smallest inputs of which celvpa once made pods that API servers refuse.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			e := readExample(t, file)
			c := load(t, "", e.Gates...)
			c.book, err = policy.WithOverlays(c.book, e.Overlays)
			require.NoError(t, err)
			if why := c.refusal(&e.Workload); why != "" {
				require.True(t, e.Recommended, "the VPA is refused: %s", why)
				t.Skipf("the VPA is refused: %s", why)
			}
			var missed []string
			if e.Recommended {
				missed = c.recommend(t, &e.Workload)
			}
			ns, err := NewNamespace(e.LimitRanges)
			require.NoError(t, err)
			_, refused := ns.Create(e.Pod)
			require.Equal(t, e.Younger, refused != nil, "whether the pod is refused as written: %v", refused)
			e.requireAccepted(t, c, ns, missed)
		})
	}
}

func readExample(t *testing.T, file string) *example {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	out := &example{}
	require.NoError(t, yaml.UnmarshalStrict(text, out))
	out.Pod.Namespace, out.Pod.Name = workloads.Namespace, "web-1"
	for _, list := range [][]corev1.Container{out.Pod.Spec.Containers, out.Pod.Spec.InitContainers} {
		for i := range list {
			list[i].Image = "x"
		}
	}
	for i := range out.LimitRanges {
		out.LimitRanges[i].Namespace, out.LimitRanges[i].Name = workloads.Namespace, "l"
	}
	out.VPA.Namespace, out.VPA.Name = workloads.Namespace, "web"
	out.VPA.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	return out
}

func (e *example) requireAccepted(t *testing.T, c cluster, ns *Namespace, missed []string) {
	t.Helper()
	v := verdict{refused: map[step]*Refusal{}}
	if e.Younger {
		c.admit(ns, &e.Workload, folded(ns), &v)
	} else {
		v = c.judge(ns, &e.Workload)
	}
	for at, refused := range v.refused {
		if e.Younger { // it stays as it is, and is refused as it was
			missed = append(missed, fmt.Sprintf("%s: %s", at, refused))
		} else {
			t.Errorf("%s: %s", at, refused)
		}
	}
	require.NotNil(t, v.after)
	if text, err := yaml.Marshal(resourcesOf(v.after)); err == nil {
		t.Logf("the new pod:\n%s", text)
	}
	for name, want := range e.Want {
		got := stanza(v.after, name)
		missed = append(missed, differences(name+" requests", want.Requests, got.Requests, 0)...)
		missed = append(missed, differences(name+" limit", want.Limits, got.Limits, 0)...)
	}
	for name, most := range e.AtMost {
		got := stanza(v.after, name)
		missed = append(missed, differences(name+" requests at most", most.Requests, got.Requests, -1)...)
		missed = append(missed, differences(name+" limit at most", most.Limits, got.Limits, -1)...)
	}
	require.Empty(t, missed)
}

// differences compares amounts; sign -1 allows lower ones.
func differences(what string, want, got corev1.ResourceList, sign int) (out []string) {
	for name, q := range want {
		have, there := got[name]
		if is := have.Cmp(q); !there || is != 0 && is != sign {
			out = append(out, fmt.Sprintf("%s %s %s, not %s", what, name, q.String(), have.String()))
		}
	}
	return out
}

// stanza are the resources of a container, or of the "pod" as a whole.
func stanza(pod *corev1.Pod, name string) corev1.ResourceRequirements {
	if name == "pod" && pod.Spec.Resources != nil {
		return *pod.Spec.Resources
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return list[i].Resources
			}
		}
	}
	return corev1.ResourceRequirements{}
}

// recommend runs container.recommend and pod.recommend, as the recommender does. It returns which
// targets are 0.
func (c cluster) recommend(t *testing.T, w *workloads.Workload) (zero []string) {
	t.Helper()
	plan := policy.For(c.book, w.VPA).Plan
	policies := facts.PolicyRulesOf(plan)
	var containers []facts.PodContainer
	list := w.VPA.Status.Recommendation.ContainerRecommendations
	for i := range list {
		one := facts.Policy(policies.For(w.VPA.Spec.ResourcePolicy, list[i].ContainerName))
		list[i].UncappedTarget = list[i].Target
		bounds := facts.BoundsOf(&list[i])
		for i := range bounds {
			bounds[i] = bounds[i].Copy()
		}
		require.Empty(t, plan.RunStages(facts.ContainerRecommend, facts.RecommendFacts(plan, &vpav1.VerticalPodAutoscaler{}, list[i].ContainerName, one, facts.RecommendInput{}, bounds), nil))
		containers = append(containers, facts.PodContainer{Name: list[i].ContainerName, Policy: one, Bounds: bounds})
	}
	whole, failed := facts.RecommendPod(plan, containers, facts.PodPolicy(w.VPA.Spec.ResourcePolicy), facts.PodRequests{CPU: true}, nil)
	require.Empty(t, failed)
	w.VPA.Status.Recommendation.PodRecommendation = &vpav1.RecommendedResources{
		Target: facts.ResourceList(whole[0]), LowerBound: facts.ResourceList(whole[1]), UpperBound: facts.ResourceList(whole[2])}
	for i := range list {
		list[i].Target, list[i].LowerBound, list[i].UpperBound = facts.ResourceList(containers[i].Bounds[0]), facts.ResourceList(containers[i].Bounds[1]), facts.ResourceList(containers[i].Bounds[2])
		for name, q := range list[i].Target {
			if q.IsZero() {
				zero = append(zero, fmt.Sprintf("%s target %s is 0", list[i].ContainerName, name))
			}
		}
	}
	return zero
}
