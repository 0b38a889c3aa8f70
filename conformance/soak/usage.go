package main

import (
	"context"
	"hash/fnv"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/soak/watcher"
)

// usage is what pods use: each workload has a level of its own, which moves up and down in some minutes and which the churn shifts.
type usage struct {
	pods   client.Reader
	shifts sync.Map // workload → factor, float64
}

// of is the usage of the pods that run.
func (u *usage) of(namespace string) (out []metricsv1beta1.PodMetrics) {
	var list corev1.PodList
	if err := u.pods.List(context.Background(), &list, client.InNamespace(namespace)); err != nil {
		return nil // the cache has not started
	}
	now := time.Now()
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.CreationTimestamp.After(now) {
			continue
		}
		podUsage := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels},
			Timestamp: metav1.NewTime(now), Window: metav1.Duration{Duration: 15 * time.Second}}
		for _, c := range pod.Spec.Containers {
			podUsage.Containers = append(podUsage.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: u.used(pod, c.Name, now)})
		}
		out = append(out, podUsage)
	}
	return out
}

func (u *usage) used(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.Labels[watcher.App] + "/" + container))
	n := float64(h.Sum32() % 1000)
	period := 120 + n/4 // seconds
	level := 1 + 0.6*math.Sin(2*math.Pi*(float64(now.Unix()%3600)/period+n/1000))
	if shift, ok := u.shifts.Load(pod.Namespace + "/" + pod.Labels[watcher.App]); ok {
		level *= shift.(float64)
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(level*(20+n/4)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(level*(40+n/4))<<20, resource.BinarySI),
	}
}
