package podreview

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestHostileLimitRangesAreAnswered: bounds that contradict each other, of 0 and of the largest amounts, ratios below 1, for fifty
// containers. What is written is never negative, and no request exceeds its limit.
func TestHostileLimitRangesAreAnswered(t *testing.T) {
	chosen := plan(t)
	amounts := []string{"0", "1m", "1", "2500Mi", "9223372036854775807"}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{}
	pod := &corev1.Pod{}
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	for i := range 50 {
		name := fmt.Sprint("c", i)
		r := corev1.ResourceRequirements{Requests: list("10m", "10Mi")}
		if i%2 == 0 {
			r.Limits = list("40m", "15Mi")
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Resources: r})
		v.Status.Recommendation.ContainerRecommendations = append(v.Status.Recommendation.ContainerRecommendations,
			vpav1.RecommendedContainerResources{ContainerName: name, Target: list(fmt.Sprintf("%dm", 1+i*i), fmt.Sprintf("%dMi", 1+i*7))})
	}
	patched := 0
	for _, kind := range []corev1.LimitType{corev1.LimitTypeContainer, corev1.LimitTypePod} {
		for _, least := range amounts {
			for _, most := range amounts {
				for _, ratio := range []string{"0", "500m", "1", "3"} {
					item := corev1.LimitRangeItem{Type: kind, Min: list(least, least), Max: list(most, most), MaxLimitRequestRatio: list(ratio, ratio)}
					limits := facts.FoldLimitRanges([]corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}})
					answer := Review(chosen, Request{Pod: pod, VPA: v, Limits: limits}, nil)
					about := fmt.Sprintf("%s from %s to %s, ratio %s", kind, least, most, ratio)
					require.Empty(t, answer.Failed, about)
					require.True(t, answer.Allowed(), about)
					for i := range answer.Change.Containers {
						c := &answer.Change.Containers[i]
						for _, q := range c.Requests {
							patched++
							require.GreaterOrEqual(t, q.Sign(), 0, about)
							if limit, ok := c.Limits.Of(q.Resource); ok {
								require.LessOrEqual(t, q.Cmp(limit), 0, about)
							}
						}
					}
				}
			}
		}
	}
	require.NotZero(t, patched)
}

// TestWhoeverCreatesAPodIsToldThatNothingFits and which bounds contradict each other: the limits of one container alone exceed what
// a LimitRange, younger than the pod's template, allows.
func TestWhoeverCreatesAPodIsToldThatNothingFits(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	only := vpav1.ContainerControlledValuesRequestsOnly
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "*", ControlledValues: &only}}}
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: cpu("1")}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: cpu("1500m"), Limits: cpu("2")}}}}}
	limits := facts.FoldLimitRanges([]corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: cpu("1800m")}}}}})
	answer := Review(plan(t), Request{Pod: pod, VPA: v, Limits: limits}, nil)
	const why = "no amounts of cpu fit all that bounds the containers of the pod (cpu capped to fit Max in pod LimitRange, cpu capped to container limit)"
	require.Equal(t, []string{"VerticalPodAutoscaler v: cpu of container app stays as it is: " + why}, answer.Warnings)
	require.Empty(t, answer.Change.Containers[0].Requests)
	require.Contains(t, answer.Change.Containers[0].Notes, "cpu is not changed: "+why)
	require.Equal(t, why, answer.Change.Containers[0].Withheld)
}
