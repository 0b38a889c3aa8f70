package explain

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
)

// TestAListNamesTheVPAThatHasThePods of a shared target: regression, the other one had "no pods".
func TestAListNamesTheVPAThatHasThePods(t *testing.T) {
	plan := &simulate.Plan{Items: []answers.PlannedPod{{Pod: "shop/web-1", VPA: "shop/web", Action: "Skip", Rule: "eligibility/nothing-to-change", Reason: "Nothing"}}}
	list := NewList([]*vpav1.VerticalPodAutoscaler{vpaOf("second", "Deployment", "web"), vpaOf("web", "Deployment", "web"), vpaOf("idle", "Deployment", "idle")}, nil, plan)
	reasons := map[string]string{}
	for _, row := range list.Items {
		reasons[row.VPA] = row.Reason
	}
	require.Equal(t, map[string]string{"shop/idle": "no pods", "shop/web": "Nothing",
		"shop/second": "VerticalPodAutoscaler shop/web controls the pods of its target (point vpa.order)"}, reasons)
}

// TestAListComparesWhatHasATarget: regression, the requests of containers that a VPA leaves alone were
// set against the targets of others, and requests of a pod as a whole were left out.
func TestAListComparesWhatHasATarget(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(amount)} }
	v := vpaOf("web", "Deployment", "web")
	require.Equal(t, "- → -", gap(v, nil, "cpu").String())

	both := pod("web-1", nil)
	both.Spec.Containers = []corev1.Container{
		{Name: "app", Resources: corev1.ResourceRequirements{Requests: cpu("4")}}, {Name: "proxy", Resources: corev1.ResourceRequirements{Requests: cpu("100m")}},
	}
	require.Equal(t, "4100m → -", gap(v, &both, "cpu").String(), "nothing is recommended")

	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
		{ContainerName: "proxy", Target: cpu("50m")}, {ContainerName: "gone", Target: cpu("1")}}}
	require.Equal(t, "100m → 50m", gap(v, &both, "cpu").String())
	require.Equal(t, "- → 1050m", gap(v, nil, "cpu").String(), "without a pod, all of it")

	both.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("5")}
	v.Status.Recommendation.PodRecommendation = &vpav1.RecommendedResources{Target: cpu("2")}
	require.Equal(t, "5 → 2", gap(v, &both, "cpu").String())
	require.Equal(t, "- → -", gap(v, &both, "memory").String())
}
