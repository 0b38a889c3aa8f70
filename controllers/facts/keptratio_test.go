package facts_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// resizedPod is a running pod that in-place updates change as the updater does.
type resizedPod struct {
	*corev1.Pod
	vpa  *vpav1.VerticalPodAutoscaler
	plan *engine.Plan
}

func newResizedPod(t *testing.T, plan *engine.Plan, requests, limits string) *resizedPod {
	t.Helper()
	p := &resizedPod{Pod: &corev1.Pod{}, vpa: &vpav1.VerticalPodAutoscaler{}, plan: plan}
	require.NoError(t, json.Unmarshal([]byte(`{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "resources": {"requests": `+requests+`, "limits": `+limits+`}}]}}`), p.Pod))
	p.Annotations = map[string]string{}
	return p
}

// resize applies a target and returns the limits.
func (p *resizedPod) resize(t *testing.T, cpu, memory string) (limits [2]string) {
	t.Helper()
	p.vpa.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{
		ContainerName: "a", Target: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}}}}
	change, failed := facts.ResourcesForPod(p.plan, facts.PodInput{Pod: p.Pod, VPA: p.vpa}, nil)
	require.Empty(t, failed)
	c := &change.Containers[0]
	now := &p.Spec.Containers[0].Resources
	now.Requests, now.Limits = c.Requests.List(), c.Limits.List()
	if ratio := c.LimitRatio(); ratio != "" {
		p.Annotations[facts.LimitRatioAnnotation("a")] = ratio
	}
	return [2]string{now.Limits.Cpu().String(), now.Limits.Memory().String()}
}

// TestLimitsOfAPodThatIsResizedOftenKeepTheirRatio: what a pod has is rounded down. By a ratio of that, limits came down with each
// resize until they were equal to the requests: those of 25m and 37m within 24 resizes, and those of a pod that once got 1m at once.
func TestLimitsOfAPodThatIsResizedOftenKeepTheirRatio(t *testing.T) {
	plan := shippedPlan(t)
	p := newResizedPod(t, plan, `{"cpu": "25m", "memory": "100"}`, `{"cpu": "37m", "memory": "133"}`)
	for range 30 {
		require.Equal(t, [2]string{"53m", "159"}, p.resize(t, "36m", "120"))
		require.Equal(t, [2]string{"37m", "133"}, p.resize(t, "25m", "100"))
	}
	require.Equal(t, map[string]string{"vpaLimitRatio/a": `{"requests":{"cpu":"25m","memory":"100"},"limits":{"cpu":"37m","memory":"133"}}`}, p.Annotations)

	p = newResizedPod(t, plan, `{"cpu": "1", "memory": "100Mi"}`, `{"cpu": "1500m", "memory": "200Mi"}`)
	require.Equal(t, "1m", p.resize(t, "1m", "100Mi")[0])
	require.Equal(t, "3", p.resize(t, "2", "100Mi")[0])

	// What somebody else has set since counts from then on.
	p.resize(t, "1m", "100Mi")
	p.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("4m")
	require.Equal(t, "400m", p.resize(t, "100m", "100Mi")[0])
	require.Equal(t, "4", p.resize(t, "1", "100Mi")[0])
}

// TestAnExactRatioNeedsNoAnnotation, and neither do limits without a request or requests without a limit.
func TestAnExactRatioNeedsNoAnnotation(t *testing.T) {
	plan := shippedPlan(t)
	p := newResizedPod(t, plan, `{"cpu": "100m", "memory": "100Mi"}`, `{"cpu": "300m", "memory": "100Mi"}`)
	require.Equal(t, [2]string{"777m", "123456789"}, p.resize(t, "259m", "123456789"))
	require.Empty(t, p.Annotations)
	p = newResizedPod(t, plan, `{"cpu": "100m"}`, `{"memory": "7"}`)
	p.resize(t, "33m", "11")
	require.Empty(t, p.Annotations)
}

// TestAnAnnotationThatCannotBeReadIsLeftOut, as what users write into it counts for nothing.
func TestAnAnnotationThatCannotBeReadIsLeftOut(t *testing.T) {
	plan := shippedPlan(t)
	for _, text := range []string{"", "{", "null", "[]", `{"requests":{"cpu":"x"},"limits":{"cpu":"2"}}`, `{"requests":{"cpu":"-1"},"limits":{"cpu":"2"}}`, `{"requests":{"cpu":"0"},"limits":{"cpu":"2"}}`} {
		p := newResizedPod(t, plan, `{"cpu": "100m", "memory": "100Mi"}`, `{"cpu": "250m", "memory": "100Mi"}`)
		p.Annotations[facts.LimitRatioAnnotation("a")] = text
		require.Equal(t, "500m", p.resize(t, "200m", "100Mi")[0], text)
	}
}
