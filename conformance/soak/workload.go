package main

import (
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/conformance/soak/watcher"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// namespaces are those in which everything happens. Pods with resources at pod level are in the first one only.
var namespaces = []string{"soak-1", "soak-2", "soak-3", "soak-4"}

// workload is a Deployment and its VPA as they should be.
type workload struct {
	namespace, name string
	replicas        int32
	containers      int
	podLevel        bool
	rollouts        int
	hasVPA          bool
	spec            vpav1.VerticalPodAutoscalerSpec
}

func (w *workload) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: w.name, Labels: map[string]string{watcher.App: w.name}}
}

func newWorkload(random *rand.Rand, slot, generation int) *workload {
	w := &workload{namespace: namespaces[slot%len(namespaces)], name: fmt.Sprintf("w%d-%d", slot, generation),
		replicas: int32(1 + random.IntN(4)), containers: 1 + random.IntN(2), hasVPA: true}
	w.podLevel = w.namespace == namespaces[0] && random.IntN(5) > 0
	w.spec = w.randomSpec(random)
	return w
}

// modes are those that VPAs get; one that changes pods more often than one that does not.
var modes = []vpav1.UpdateMode{vpav1.UpdateModeOff, vpav1.UpdateModeInitial, vpav1.UpdateModeInPlace, vpav1.UpdateModeRecreate, vpav1.UpdateModeRecreate,
	vpav1.UpdateModeAuto, vpav1.UpdateModeInPlaceOrRecreate, vpav1.UpdateModeInPlaceOrRecreate}

func (w *workload) randomSpec(random *rand.Rand) vpav1.VerticalPodAutoscalerSpec {
	spec := vpav1.VerticalPodAutoscalerSpec{
		TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: w.name},
		UpdatePolicy: &vpav1.PodUpdatePolicy{UpdateMode: &modes[random.IntN(len(modes))]},
	}
	if random.IntN(3) == 0 {
		spec.UpdatePolicy.MinReplicas = ptr.To(int32(1 + random.IntN(3)))
	}
	if random.IntN(6) == 0 {
		spec.UpdatePolicy.EvictAfterOOMSeconds = ptr.To(int32(30 + random.IntN(60)))
	}
	policy := vpav1.ContainerResourcePolicy{ContainerName: "*"}
	if random.IntN(3) > 0 {
		policy.MinAllowed = list(15+random.Int64N(40), 30+random.Int64N(60))
		policy.MaxAllowed = list(300+random.Int64N(700), 300+random.Int64N(700))
	}
	switch random.IntN(6) {
	case 0:
		policy.ControlledValues = ptr.To(vpav1.ContainerControlledValuesRequestsOnly)
	case 1:
		policy.OOMBumpUpRatio = ptr.To(*resource.NewMilliQuantity(1500, resource.DecimalSI))
		policy.MemoryAggregationIntervalSeconds = ptr.To(int32(60))
	case 2:
		spec.StartupBoost = &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: "Factor", Factor: ptr.To(int32(2)), DurationSeconds: ptr.To(int32(5 + random.IntN(20)))}}
	}
	spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{policy}}
	if w.podLevel && random.IntN(2) == 0 {
		spec.ResourcePolicy.PodPolicies = &vpav1.PodPolicies{MinAllowed: list(120, 200), MaxAllowed: list(2000, 2048)}
	}
	return spec
}

func (w *workload) vpa() *vpav1.VerticalPodAutoscaler {
	return &vpav1.VerticalPodAutoscaler{ObjectMeta: w.meta(), Spec: w.spec}
}

func (w *workload) deployment() *appsv1.Deployment {
	labels := map[string]string{watcher.App: w.name}
	d := &appsv1.Deployment{ObjectMeta: w.meta(), Spec: appsv1.DeploymentSpec{Replicas: &w.replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	d.Spec.RevisionHistoryLimit = ptr.To(int32(0))
	d.Spec.Template.Labels = labels
	d.Spec.Template.Annotations = map[string]string{"soak/rollout": fmt.Sprint(w.rollouts)}
	pod := &d.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To(int64(1))
	for i := range w.containers {
		pod.Containers = append(pod.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example/app:1",
			Resources: corev1.ResourceRequirements{Requests: list(100, 128), Limits: list(200, 256)}})
	}
	if w.podLevel {
		pod.Resources = &corev1.ResourceRequirements{Requests: list(300, 400), Limits: list(600, 800)}
	}
	return d
}

func (w *workload) pdb() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: w.meta(), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{watcher.App: w.name}}, MinAvailable: ptr.To(intstr.FromInt32(max(0, w.replicas-1)))}}
}

// list is an amount of CPU in millicores and one of memory in MiB.
func list(milli, mebi int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(mebi<<20, resource.BinarySI),
	}
}
