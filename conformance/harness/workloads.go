package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const (
	perNamespace = 100 // Deployments, and VPAs
	workers      = 20  // that create things at the same time
	podsPerNode  = 450 // what a lab's node takes, less what may stick out while pods are placed
)

// Workloads are the Deployments that a measurement makes on a lab, numbered from 0, for a VerticalPodAutoscaler each.
type Workloads struct {
	*Cluster
	Count      int
	Replicas   int // pods of each
	Containers int // of each pod
	// Again takes Deployments that exist for these.
	Again bool
}

// Nodes are how many a lab needs for so many pods.
func Nodes(pods int) int { return pods/podsPerNode + 1 }

// Pods are all pods that there should be.
func (w *Workloads) Pods() int { return w.Count * w.Replicas }

// Key is the namespace and the name of a Deployment, and of its VPA. It is the label "app" of its pods, too.
func (w *Workloads) Key(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: fmt.Sprintf("bench-%03d", i/perNamespace), Name: fmt.Sprintf("web-%05d", i)}
}

// Namespaces are where all of them are.
func (w *Workloads) Namespaces() (out []string) {
	for i := 0; i < w.Count; i += perNamespace {
		out = append(out, w.Key(i).Namespace)
	}
	return out
}

// Populate installs the CRDs and creates Deployments, whose pods the lab's controllers make and run. It waits until they do.
func (w *Workloads) Populate(ctx context.Context) error {
	begin := time.Now()
	if err := w.InstallCRDs(ctx, false); err != nil {
		return err
	}
	Say("creating %d Deployments of %d pods", w.Count, w.Replicas)
	for _, name := range w.Namespaces() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := w.Create(ctx, ns); err != nil && !(w.Again && apierrors.IsAlreadyExists(err)) {
			return fmt.Errorf("creating namespace %s: %w", ns.Name, err)
		}
	}
	err := w.Each(ctx, "Deployments created", func(i int) error {
		d := w.deployment(i)
		if err := w.Create(ctx, d); err != nil && !(w.Again && apierrors.IsAlreadyExists(err)) {
			return fmt.Errorf("creating Deployment %s/%s: %w", d.Namespace, d.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.WaitForPods(ctx); err != nil {
		return err
	}
	Say("the pods took %s", time.Since(begin).Round(time.Second))
	return nil
}

// WaitForPods waits until all pods are there, and then until the Deployments know that they are ready: from then on nothing in
// the lab has work to do. It does not wait for the last of very many: their status is of no interest to what is measured.
func (w *Workloads) WaitForPods(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 5*time.Second, false, func(ctx context.Context) (bool, error) {
		there, err := w.countPods(ctx)
		if err == nil {
			Say("%d of %d pods are there", there, w.Pods())
		}
		return there == w.Pods(), err
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 5*time.Second, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := w.List(ctx, &list); err != nil {
			return false, fmt.Errorf("listing Deployments: %w", err)
		}
		ready := 0
		for i := range list.Items {
			ready += int(list.Items[i].Status.ReadyReplicas)
		}
		Say("%d of %d pods are ready", ready, w.Pods())
		return ready == w.Pods(), nil
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("waiting for the pods: %w", err)
	}
	return nil
}

// countPods asks for one pod, and how many more there are.
func (w *Workloads) countPods(ctx context.Context) (int, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := w.List(ctx, &list, client.Limit(1)); err != nil {
		return 0, fmt.Errorf("counting pods: %w", err)
	}
	there := len(list.Items)
	if list.RemainingItemCount != nil {
		there += int(*list.RemainingItemCount)
	}
	return there, nil
}

// Each does something for every Deployment or VPA by its number, several at the same time.
func (w *Workloads) Each(ctx context.Context, what string, do func(i int) error) error {
	return w.EachOf(ctx, w.Count, what, do)
}

// EachOf is Each for so many of something else.
func (w *Workloads) EachOf(ctx context.Context, count int, what string, do func(i int) error) error {
	failed := make([]error, count)
	next := make(chan int)
	var group sync.WaitGroup
	var done atomic.Int64
	for range workers {
		group.Go(func() {
			for i := range next {
				failed[i] = do(i)
				if n := done.Add(1); n%2000 == 0 {
					Say("%d %s", n, what)
				}
			}
		})
	}
	for i := 0; i < count && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(failed...)
}

func (w *Workloads) deployment(i int) *appsv1.Deployment {
	replicas, key := int32(w.Replicas), w.Key(i)
	labels := map[string]string{"app": key.Name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
	for c := range w.Containers {
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{
			Name: ContainerName(c), Image: "registry.example/app:1",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: quantity.Must("10m"), corev1.ResourceMemory: quantity.Must("32Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: quantity.Must("64Mi")},
			},
		})
	}
	return d
}

// ContainerName is that of a container by its number in the pods of Workloads, each of which asks for 10m CPU and 32Mi of memory.
func ContainerName(c int) string {
	if c == 0 {
		return "app"
	}
	return fmt.Sprintf("sidecar-%d", c)
}

// RenewVPAs makes VPAs as if nobody had served them before: without checkpoints, and without a status but what one gives them.
func (w *Workloads) RenewVPAs(ctx context.Context, one func(i int) *vpav1.VerticalPodAutoscaler) error {
	Say("creating %d VerticalPodAutoscalers", w.Count)
	for _, namespace := range w.Namespaces() {
		for _, kind := range []client.Object{&vpav1.VerticalPodAutoscaler{}, &vpav1.VerticalPodAutoscalerCheckpoint{}} {
			if err := w.DeleteAllOf(ctx, kind, client.InNamespace(namespace)); err != nil {
				return fmt.Errorf("deleting all %T of namespace %s: %w", kind, namespace, err)
			}
		}
	}
	return w.Each(ctx, "VerticalPodAutoscalers created", func(i int) error {
		v := one(i)
		status := v.Status
		if err := w.Create(ctx, v); err != nil {
			return fmt.Errorf("creating VerticalPodAutoscaler %s/%s: %w", v.Namespace, v.Name, err)
		}
		if status.Recommendation == nil {
			return nil
		}
		v.Status = status
		if err := w.Status().Update(ctx, v); err != nil {
			return fmt.Errorf("giving VerticalPodAutoscaler %s/%s a recommendation: %w", v.Namespace, v.Name, err)
		}
		return nil
	})
}
