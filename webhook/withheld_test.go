package webhook

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// TestAnOverlayThatMakesPodsInvalidIsNamed in the pod's annotation, in a warning, in the log and in a metric; the resource stays.
func TestAnOverlayThatMakesPodsInvalidIsNamed(t *testing.T) {
	book := writeOverlay(t, `{change: [{after: valid-limits/within-pod, stage: {name: careless, each: container, rules: [{name: too-much, when: has(limits.memory), set: {requests.memory: limits.memory * 2}}]}}]}`)
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: list("100m", "200Mi")}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list("500m", "512Mi"), Limits: list("1", "1Gi")}}}}}
	answer := podreview.Review(policy.For(book, v).Plan, podreview.Request{Pod: pod, VPA: v}, nil)
	const why = "its memory request of 800Mi would exceed its limit of 400Mi, with the rules of RuleOverlay mine"
	require.Equal(t, []string{"VerticalPodAutoscaler web: memory of container app stays as it is: " + why}, answer.Warnings)
	require.Contains(t, updates(&answer), "memory is not changed: "+why)

	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	before := testutil.ToFloat64(withheldTotal.WithLabelValues("mine"))
	logAnswer(&subject{log: log}, &answer, v)
	require.Equal(t, before+1, testutil.ToFloat64(withheldTotal.WithLabelValues("mine")))
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], `"overlays"=["mine"]`)
	require.Contains(t, logged[0], why)
}
