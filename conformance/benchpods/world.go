package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const workers = 20 // that create things at the same time

func (b *bench) namespace(i int) string { return fmt.Sprintf("bench-%02d", i%b.namespaces) }
func name(i int) string                 { return fmt.Sprintf("web-%05d", i) }

// populate creates namespaces with a LimitRange each, and Deployments without pods, which the lab's controllers give a ReplicaSet, with
// a VPA each that has a recommendation.
func (b *bench) populate(ctx context.Context) error {
	if err := b.InstallCRDs(ctx, false); err != nil {
		return err
	}
	harness.Say("creating %d Deployments with a VerticalPodAutoscaler each, in %d namespaces", b.vpas, b.namespaces)
	for i := range b.namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace(i)}}
		if err := errors.Join(b.create(ctx, ns), b.create(ctx, limitRange(ns.Name))); err != nil {
			return err
		}
	}
	failed := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < b.vpas && failed[w] == nil; i += workers {
				failed[w] = b.createOne(ctx, i)
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

func (b *bench) create(ctx context.Context, o client.Object) error {
	if err := b.Create(ctx, o); err != nil && !(b.keep && apierrors.IsAlreadyExists(err)) {
		return fmt.Errorf("creating %T %s/%s: %w", o, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

func (b *bench) createOne(ctx context.Context, i int) error {
	v := vpa(b.namespace(i), name(i))
	if err := errors.Join(b.create(ctx, deployment(b.namespace(i), name(i))), b.create(ctx, v)); err != nil {
		return err
	}
	if v.UID == "" { // it was there
		return nil
	}
	v.Status = recommendation(i)
	if err := b.Status().Update(ctx, v); err != nil {
		return fmt.Errorf("giving VerticalPodAutoscaler %s/%s a recommendation: %w", v.Namespace, v.Name, err)
	}
	return nil
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: quantity.Must(cpu), corev1.ResourceMemory: quantity.Must(memory)}
}

// limitRange bounds containers and pods, each of which some recommendations exceed.
func limitRange(namespace string) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bounds"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Min: amounts("10m", "16Mi"), Max: amounts("2", "4Gi"), Default: amounts("1", "1Gi"), DefaultRequest: amounts("100m", "128Mi")},
			{Type: corev1.LimitTypePod, Min: amounts("20m", "32Mi"), Max: amounts("3", "5Gi")},
		}},
	}
}

func deployment(namespace, name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: containers(name), Volumes: []corev1.Volume{configVolume(name)}}},
		},
	}
}

// vpa is what people write.
func vpa(namespace, name string) *vpav1.VerticalPodAutoscaler {
	return &vpav1.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: vpav1.VerticalPodAutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			UpdatePolicy: &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(vpav1.UpdateModeRecreate)},
			ResourcePolicy: &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{
				{ContainerName: "app", MinAllowed: amounts("50m", "64Mi"), MaxAllowed: amounts("4", "8Gi"), ControlledResources: &[]corev1.ResourceName{"cpu", "memory"}},
				{ContainerName: "*", MaxAllowed: amounts("500m", "512Mi"), ControlledValues: ptr.To(vpav1.ContainerControlledValuesRequestsOnly)},
			}},
		},
	}
}

// recommendation is another one for each: most fit, some are below or above what policies and LimitRanges allow.
func recommendation(i int) vpav1.VerticalPodAutoscalerStatus {
	one := func(container string, cpu, memory int64) vpav1.RecommendedContainerResources {
		of := func(part int64) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu*part/4, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(memory*part/4, resource.BinarySI)}
		}
		return vpav1.RecommendedContainerResources{ContainerName: container, Target: of(4), LowerBound: of(2), UpperBound: of(12), UncappedTarget: of(4)}
	}
	n := int64(i)
	return vpav1.VerticalPodAutoscalerStatus{
		Recommendation: &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
			one("app", 25+n*37%1400, (40+n*53%2500)<<20), one("proxy", 15+n*11%600, (30+n*7%700)<<20),
		}},
		Conditions: []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.RecommendationProvided, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
	}
}

// replicaSets waits until each Deployment has one, and returns them by the name of the Deployment.
func (b *bench) replicaSets(ctx context.Context) (map[string]*appsv1.ReplicaSet, error) {
	out := map[string]*appsv1.ReplicaSet{}
	err := wait.PollUntilContextTimeout(ctx, time.Second, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		var list appsv1.ReplicaSetList
		if err := b.List(ctx, &list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil {
				out[owner.Name] = &list.Items[i]
			}
		}
		return len(out) >= b.vpas, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for a ReplicaSet of each Deployment: %w", err)
	}
	return out, nil
}
