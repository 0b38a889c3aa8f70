package podreview

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func list(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if cpu != "" {
		out[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func recommended(name, cpu, memory string) vpav1.RecommendedContainerResources {
	return vpav1.RecommendedContainerResources{ContainerName: name, Target: list(cpu, memory), LowerBound: list(cpu, memory), UpperBound: list(cpu, memory)}
}

// BenchmarkReview is a pod of two containers with a policy, in a namespace without LimitRanges and with some.
func BenchmarkReview(b *testing.B) {
	book, err := policy.Load(policy.Options{})
	require.NoError(b, err)
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list("100m", "100Mi"), Limits: list("200m", "200Mi")}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{container("app"), container("side")}}}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "v"}}
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "*", MinAllowed: list("10m", "10Mi"), MaxAllowed: list("2", "2Gi")}}}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{recommended("app", "600m", "900Mi"), recommended("side", "300m", "50Mi")}}
	ranges := facts.FoldLimitRanges([]corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Min: list("20m", "20Mi"), Max: list("1", "1Gi")},
		{Type: corev1.LimitTypePod, Max: list("1500m", "1500Mi")},
	}}}})
	plan := policy.For(book, v).Plan
	for name, limits := range map[string]*facts.LimitRanges{"plain": nil, "LimitRanges": ranges} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if answer := Review(plan, Request{Pod: pod, VPA: v, Limits: limits}, nil); len(answer.Patch) == 0 {
					b.Fatal("nothing is patched")
				}
			}
		})
	}
}
