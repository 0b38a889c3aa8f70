package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const (
	perNamespace = 100 // Deployments
	podsPerNode  = 450 // what a lab's node takes, less a reserve for pods that the scheduler puts unevenly
	fillers      = 20  // requests in flight while a lab is filled
)

func nodes(pods int) int { return pods/podsPerNode + 1 }

// pods are all pods that there should be.
func (l *lab) pods() int { return l.vpas * l.replicas }

// key names a Deployment and its VPA; the name is the label "app" of the pods, too.
func key(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: fmt.Sprintf("bench-%03d", i/perNamespace), Name: fmt.Sprintf("web-%05d", i)}
}

func (l *lab) namespaces() (out []string) {
	for i := 0; i < l.vpas; i += perNamespace {
		out = append(out, key(i).Namespace)
	}
	return out
}

// each calls do for so many numbers, several at a time.
func each(ctx context.Context, parallel, count int, what string, do func(ctx context.Context, i int) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := 0; i < count && inner.Err() == nil; i++ {
		if i > 0 && i%2000 == 0 {
			progress("%d of %d %s", i, count, what)
		}
		group.Go(func() error { return do(inner, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// create is for objects that may exist with -keep-lab.
func (l *lab) create(ctx context.Context, o client.Object) error {
	if err := l.Create(ctx, o); err != nil && !(l.keep && apierrors.IsAlreadyExists(err)) {
		return fmt.Errorf("creating %T %s/%s: %w", o, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// populate installs the CRDs, creates Deployments, and waits for their pods.
func (l *lab) populate(ctx context.Context) error {
	if err := l.InstallCRDs(ctx, false); err != nil {
		return err
	}
	progress("creating %d Deployments with %d pods each", l.vpas, l.replicas)
	for _, name := range l.namespaces() {
		if err := l.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	err := each(ctx, fillers, l.vpas, "Deployments", func(ctx context.Context, i int) error { return l.create(ctx, l.deployment(i)) })
	if err != nil {
		return err
	}
	return l.waitForPods(ctx)
}

// waitForPods waits until all pods exist, and then up to two minutes for Deployments to count them
// as ready: from then on the lab is idle. Nothing measured depends on the status of the last of
// very many.
func (l *lab) waitForPods(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 5*time.Second, true, func(ctx context.Context) (bool, error) {
		n, err := l.countPods(ctx)
		if n < l.pods() {
			progress("%d of %d pods exist", n, l.pods())
		}
		return n == l.pods(), err
	})
	if err != nil {
		return fmt.Errorf("waiting for pods: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 5*time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := l.List(ctx, &list); err != nil {
			return false, err
		}
		ready := 0
		for i := range list.Items {
			ready += int(list.Items[i].Status.ReadyReplicas)
		}
		progress("%d of %d pods are ready", ready, l.pods())
		return ready == l.pods(), nil
	})
	if err != nil && !(ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("waiting for ready pods: %w", err)
	}
	return nil
}

// countPods lists one pod, and reads how many remain.
func (l *lab) countPods(ctx context.Context) (int, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := l.List(ctx, &list, client.Limit(1)); err != nil {
		return 0, fmt.Errorf("counting pods: %w", err)
	}
	return len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)), nil
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: quantity.Must(cpu), corev1.ResourceMemory: quantity.Must(memory)}
}

func (l *lab) deployment(i int) *appsv1.Deployment {
	labels := map[string]string{"app": key(i).Name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: key(i).Namespace, Name: key(i).Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(l.replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "app", Image: "registry.example/app:1",
		Resources: corev1.ResourceRequirements{Requests: amounts("10m", "32Mi"), Limits: corev1.ResourceList{corev1.ResourceMemory: quantity.Must("64Mi")}},
	}}
	return d
}

// vpa is that of a Deployment, without policies.
func vpa(i int) *vpav1.VerticalPodAutoscaler {
	return &vpav1.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: key(i).Namespace, Name: key(i).Name, Labels: map[string]string{"app": key(i).Name}},
		Spec:       vpav1.VerticalPodAutoscalerSpec{TargetRef: &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: key(i).Name}},
	}
}

// recommended gives a VPA a status.
func recommended(v *vpav1.VerticalPodAutoscaler, containers ...vpav1.RecommendedContainerResources) *vpav1.VerticalPodAutoscaler {
	v.Status = vpav1.VerticalPodAutoscalerStatus{
		Recommendation: &vpav1.RecommendedPodResources{ContainerRecommendations: containers},
		Conditions:     []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.RecommendationProvided, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
	}
	return v
}

// renewVPAs replaces all VPAs and checkpoints by new VPAs, so that programs start from the same
// state.
func (l *lab) renewVPAs(ctx context.Context, create func(i int) *vpav1.VerticalPodAutoscaler) error {
	progress("creating %d VerticalPodAutoscalers", l.vpas)
	for _, namespace := range l.namespaces() {
		for _, kind := range []client.Object{&vpav1.VerticalPodAutoscaler{}, &vpav1.VerticalPodAutoscalerCheckpoint{}} {
			if err := l.DeleteAllOf(ctx, kind, client.InNamespace(namespace)); err != nil {
				return fmt.Errorf("deleting all %T of namespace %s: %w", kind, namespace, err)
			}
		}
	}
	return each(ctx, fillers, l.vpas, "VerticalPodAutoscalers", func(ctx context.Context, i int) error {
		v := create(i)
		status := v.Status
		if err := l.Create(ctx, v); err != nil {
			return fmt.Errorf("creating VerticalPodAutoscaler %s: %w", key(i), err)
		}
		if status.Recommendation == nil {
			return nil
		}
		v.Status = status
		if err := l.Status().Update(ctx, v); err != nil {
			return fmt.Errorf("giving VerticalPodAutoscaler %s a recommendation: %w", key(i), err)
		}
		return nil
	})
}
