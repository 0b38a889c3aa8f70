package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// usageAPI is what metrics.k8s.io has in place of metrics-server, which cannot scrape that many
// simulated pods in time. Its samples are of the moment in which it is asked.
type usageAPI struct {
	samples    atomic.Bool // otherwise it knows no pod
	containers int
	pods       []metav1.PartialObjectMetadata // set before anybody reads
}

// list takes the lab's pods for those that have usage.
func (u *usageAPI) list(ctx context.Context, l *lab) error {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := l.List(ctx, &list); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	u.pods = list.Items
	return nil
}

// usage is that of the pods of a namespace, or of all.
func (u *usageAPI) usage(namespace string) (out []metricsv1beta1.PodMetrics) {
	if !u.samples.Load() {
		return nil
	}
	now := metav1.Now()
	for i := range u.pods {
		pod := &u.pods[i]
		if namespace != metav1.NamespaceAll && namespace != pod.Namespace {
			continue
		}
		one := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Timestamp: now, Window: metav1.Duration{Duration: 15 * time.Second}}
		for c := range u.containers {
			one.Containers = append(one.Containers, metricsv1beta1.ContainerMetrics{Name: containerName(c), Usage: used(pod.Name, c, now.Unix())})
		}
		out = append(out, one)
	}
	return out
}

// used is what a container uses in a second: up to 500 milli-cores and 512 MiB, by a hash.
func used(pod string, container int, second int64) corev1.ResourceList {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod + " " + strconv.Itoa(container) + " " + strconv.FormatInt(second, 10)))
	n := int64(h.Sum32())
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(10+n%490, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity((32+n/490%480)<<20, resource.BinarySI),
	}
}
