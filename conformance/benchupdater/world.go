package main

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const (
	vpas     = 1000 // of which it is known how many upstream gets through
	replicas = 2    // of which one may be disrupted, with default flags
)

// replaceResized makes pods new that do not have the resources of their template, and waits until all pods run. Those that were
// evicted have successors, which nobody gave other resources.
func (b *bench) replaceResized(ctx context.Context) error {
	var list corev1.PodList
	if err := b.List(ctx, &list); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	var resized []*corev1.Pod
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() >= lowerBound.Cpu().MilliValue() {
			resized = append(resized, pod)
		}
	}
	if len(resized) > 0 {
		harness.Say("replacing %d pods that were resized", len(resized))
	}
	err := b.EachOf(ctx, len(resized), "pods deleted", func(i int) error {
		if err := b.Delete(ctx, resized[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %s/%s: %w", resized[i].Namespace, resized[i].Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.WaitForPods(ctx)
}

var lowerBound = amounts("40m", "48Mi") // above what pods have

// vpa is one whose pods are below what it recommends for them.
func vpa(of client.ObjectKey, t trial) *vpav1.VerticalPodAutoscaler {
	mode := vpav1.UpdateModeRecreate
	if t.inPlace {
		mode = vpav1.UpdateModeInPlaceOrRecreate
	}
	target := amounts("50m", "64Mi")
	return &vpav1.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name},
		Spec: vpav1.VerticalPodAutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: of.Name},
			UpdatePolicy: &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(mode)},
		},
		Status: vpav1.VerticalPodAutoscalerStatus{
			Recommendation: &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{
				ContainerName: harness.ContainerName(0), LowerBound: lowerBound, Target: target, UncappedTarget: target, UpperBound: amounts("100m", "128Mi"),
			}}},
			Conditions: []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.RecommendationProvided, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		},
	}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: quantity.Must(cpu), corev1.ResourceMemory: quantity.Must(memory)}
}
