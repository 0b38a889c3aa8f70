package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const (
	perNamespace = 100 // Deployments, and VPAs
	workers      = 20  // that create things at the same time
)

func namespace(i int) string { return fmt.Sprintf("bench-%03d", i/perNamespace) }
func name(i int) string      { return fmt.Sprintf("web-%05d", i) }

// populate creates Deployments whose pods the lab's controllers make and run.
func (b *bench) populate(ctx context.Context) error {
	begin := time.Now()
	if err := b.InstallCRDs(ctx, false); err != nil {
		return err
	}
	say("creating %d Deployments of %d pods", b.vpas, b.replicas)
	for i := 0; i < b.vpas; i += perNamespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}
		if err := b.Create(ctx, ns); err != nil && !(b.keep && apierrors.IsAlreadyExists(err)) {
			return fmt.Errorf("creating namespace %s: %w", ns.Name, err)
		}
	}
	err := b.each(ctx, "Deployments created", func(i int) error {
		d := b.deployment(i)
		if err := b.Create(ctx, d); err != nil && !(b.keep && apierrors.IsAlreadyExists(err)) {
			return fmt.Errorf("creating Deployment %s/%s: %w", d.Namespace, d.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.waitForPods(ctx); err != nil {
		return fmt.Errorf("waiting for the pods: %w", err)
	}
	say("the pods took %s", time.Since(begin).Round(time.Second))
	return nil
}

// waitForPods waits until all pods are there, and then until the Deployments know that they are ready: from then on nothing in
// the lab has work to do. It does not wait for the last of very many: their status is of no interest to a recommender.
func (b *bench) waitForPods(ctx context.Context) error {
	want := b.vpas * b.replicas
	err := wait.PollUntilContextCancel(ctx, 5*time.Second, false, func(ctx context.Context) (bool, error) {
		there, err := b.countPods(ctx)
		if err == nil {
			say("%d of %d pods are there", there, want)
		}
		return there == want, err
	})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 5*time.Second, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := b.List(ctx, &list); err != nil {
			return false, fmt.Errorf("listing Deployments: %w", err)
		}
		ready := 0
		for i := range list.Items {
			ready += int(list.Items[i].Status.ReadyReplicas)
		}
		say("%d of %d pods are ready", ready, want)
		return ready == want, nil
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// countPods asks for one pod, and how many more there are.
func (b *bench) countPods(ctx context.Context) (int, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := b.List(ctx, &list, client.Limit(1)); err != nil {
		return 0, fmt.Errorf("counting pods: %w", err)
	}
	there := len(list.Items)
	if list.RemainingItemCount != nil {
		there += int(*list.RemainingItemCount)
	}
	return there, nil
}

// each does something for every Deployment or VPA.
func (b *bench) each(ctx context.Context, what string, do func(i int) error) error {
	failed := make([]error, b.vpas)
	next := make(chan int)
	var group sync.WaitGroup
	var done atomic.Int64
	for range workers {
		group.Go(func() {
			for i := range next {
				failed[i] = do(i)
				if n := done.Add(1); n%2000 == 0 {
					say("%d %s", n, what)
				}
			}
		})
	}
	for i := 0; i < b.vpas && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(failed...)
}

func (b *bench) deployment(i int) *appsv1.Deployment {
	replicas := int32(b.replicas)
	labels := map[string]string{"app": name(i)}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: name(i), Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
	for c := range b.containers {
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{
			Name: containerName(c), Image: "registry.example/app:1",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		})
	}
	return d
}

func containerName(c int) string {
	if c == 0 {
		return "app"
	}
	return fmt.Sprintf("sidecar-%d", c)
}

// pods lists the pods by namespace.
func (b *bench) pods(ctx context.Context) (map[string][]string, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := b.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	out := map[string][]string{}
	for i := range list.Items {
		out[list.Items[i].Namespace] = append(out[list.Items[i].Namespace], list.Items[i].Name)
	}
	return out, nil
}

// renewVPAs makes VPAs as if nobody had served them before: without a status and without checkpoints.
func (b *bench) renewVPAs(ctx context.Context) error {
	say("creating %d VerticalPodAutoscalers", b.vpas)
	for i := 0; i < b.vpas; i += perNamespace {
		for _, kind := range []client.Object{&vpav1.VerticalPodAutoscaler{}, &vpav1.VerticalPodAutoscalerCheckpoint{}} {
			if err := b.DeleteAllOf(ctx, kind, client.InNamespace(namespace(i))); err != nil {
				return fmt.Errorf("deleting all %T of namespace %s: %w", kind, namespace(i), err)
			}
		}
	}
	return b.each(ctx, "VerticalPodAutoscalers created", func(i int) error {
		v := &vpav1.VerticalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: name(i)},
			Spec:       vpav1.VerticalPodAutoscalerSpec{TargetRef: &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name(i)}},
		}
		if err := b.Create(ctx, v); err != nil {
			return fmt.Errorf("creating VerticalPodAutoscaler %s/%s: %w", v.Namespace, v.Name, err)
		}
		return nil
	})
}
