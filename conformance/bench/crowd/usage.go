package crowd

import (
	"bytes"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsscheme "k8s.io/metrics/pkg/client/clientset/versioned/scheme"
)

// What containers of a variant use at least, and how much more: as harness.Days, which makes their
// checkpoints.
func leastCPU(variant int) int64    { return 20 + 40*int64(variant) }
func leastMemory(variant int) int64 { return (64 + 60*int64(variant)) << 20 }

const (
	spreadCPU    = 97 * 7
	spreadMemory = 1440 << 17
)

// recommended is about what is recommended for that. Hardly any two workloads have the same.
func (w *workload) recommended() corev1.ResourceList {
	return amounts(leastCPU(w.variant())+spreadCPU+int64(w.number%997), leastMemory(w.variant())+spreadMemory+int64(w.number)<<12)
}

// Usage is a list of metrics.k8s.io with a sample of each container at the cluster's time, as
// protobuf.
func (c *Crowd) Usage() ([]byte, error) {
	list := metricsv1beta1.PodMetricsList{Items: make([]metricsv1beta1.PodMetrics, 0, len(c.workloads)*PodsOfWorkload)}
	at := metav1.NewTime(c.now)
	for _, w := range c.workloads {
		for _, pod := range w.pods {
			usage := metricsv1beta1.PodMetrics{Timestamp: at, Window: metav1.Duration{Duration: 15 * time.Second}}
			usage.Namespace, usage.Name, usage.Labels = pod.Namespace, pod.Name, pod.Labels
			for i := range ContainersOfPod {
				n := int64(hash(pod.Name, i, c.minutes))
				usage.Containers = append(usage.Containers, metricsv1beta1.ContainerMetrics{
					Name: containerName(i), Usage: amounts(leastCPU(w.variant())+n%spreadCPU, leastMemory(w.variant())+n/7%spreadMemory),
				})
			}
			list.Items = append(list.Items, usage)
		}
	}
	var out bytes.Buffer
	encoder := metricsscheme.Codecs.EncoderForVersion(protobuf.NewSerializer(metricsscheme.Scheme, metricsscheme.Scheme), metricsv1beta1.SchemeGroupVersion)
	if err := encoder.Encode(&list, &out); err != nil {
		return nil, fmt.Errorf("encoding the usage of %d pods: %w", len(list.Items), err)
	}
	return out.Bytes(), nil
}
