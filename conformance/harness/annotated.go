package harness

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/crds/quantity"
)

// Unknown is the annotation of pods whose usage is not served yet.
const Unknown = "usage/unknown"

// readEvery is the time between two readings of a pod.
const readEvery = 10 * time.Second

// Annotated is what running pods use, by the annotations that conformance/lab/usage.yaml describes, with amounts that stay the same:
// C.usage/cpu-low and C.usage/memory-low of container C. It is exact. What metrics-server measures is not on a busy machine: it divides
// by the time between two scrapes.
type Annotated struct {
	pods client.Reader

	mu     sync.Mutex
	served map[types.UID]map[time.Time]bool
}

// NewAnnotated follows the pods of a cluster until the context ends. Its Usage is for ServeUsage.
func (c *Cluster) NewAnnotated(ctx context.Context) (*Annotated, error) {
	objects, err := cache.New(c.Config, cache.Options{Scheme: c.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("following pods: %w", err)
	}
	go func() { _ = objects.Start(ctx) }()
	if _, err := objects.GetInformer(ctx, &corev1.Pod{}); err != nil { // waits for the first list
		return nil, fmt.Errorf("following pods: %w", err)
	}
	return &Annotated{pods: objects, served: map[types.UID]map[time.Time]bool{}}, nil
}

// Usage is a Usage.
func (a *Annotated) Usage(namespace string) (out []metricsv1beta1.PodMetrics) {
	var list corev1.PodList
	if err := a.pods.List(context.Background(), &list, client.InNamespace(namespace)); err != nil {
		return nil
	}
	at := time.Now().Truncate(readEvery)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodRunning || p.Status.StartTime == nil || p.Status.StartTime.After(at) || p.Annotations[Unknown] != "" {
			continue
		}
		if a.served[p.UID] == nil {
			a.served[p.UID] = map[time.Time]bool{}
		}
		a.served[p.UID][at] = true
		one := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Timestamp: metav1.NewTime(at), Window: metav1.Duration{Duration: readEvery}}
		for _, c := range p.Spec.Containers {
			one.Containers = append(one.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: corev1.ResourceList{
				"cpu": amountOf(p, c.Name+".usage/cpu-low", "10m"), "memory": amountOf(p, c.Name+".usage/memory-low", "32Mi")}})
		}
		out = append(out, one)
	}
	return out
}

// amountOf is the amount in an annotation.
func amountOf(p *corev1.Pod, annotation, otherwise string) resource.Quantity {
	text := p.Annotations[annotation]
	if text == "" {
		text = otherwise
	}
	q, err := quantity.Parse(text)
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// Readings is how many readings of a pod were served so far.
func (a *Annotated) Readings(pod types.UID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.served[pod])
}
