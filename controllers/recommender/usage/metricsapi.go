package usage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// metricsAPILimit is how long metrics-server may take to list all pods.
const metricsAPILimit = 30 * time.Second

// MetricsAPI reads metrics.k8s.io, which metrics-server serves (UPSTREAM.md §2.8). It lists
// everything at once: the API has no paging.
type MetricsAPI struct {
	Client    metricsclient.PodMetricsesGetter
	Namespace string // empty = all
}

// NewMetricsAPI reads the pods of a namespace, or of all if it is empty, as protobuf where that is
// served: it takes a fraction of the time and memory of JSON.
func NewMetricsAPI(config *rest.Config, namespace string) (*MetricsAPI, error) {
	compact := rest.CopyConfig(config)
	compact.ContentType = runtime.ContentTypeProtobuf
	compact.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := metricsclient.NewForConfig(compact)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of metrics.k8s.io: %w", err)
	}
	return &MetricsAPI{Client: client, Namespace: namespace}, nil
}

// Samples implements Source. A resource that is missing is no sample; in upstream it is one of 0.
// Pods without a time or without containers give none and are counted.
func (m *MetricsAPI) Samples(ctx context.Context) ([]model.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsAPILimit)
	defer cancel()
	list, err := m.Client.PodMetricses(m.Namespace).List(ctx, metav1.ListOptions{})
	answered(metricsAPIName, err)
	if err != nil {
		return nil, fmt.Errorf("listing the usage of pods: %w", explain(err, "metrics.k8s.io", "pods", "metrics-server"))
	}
	count := 0
	for i := range list.Items {
		count += len(list.Items[i].Containers)
	}
	out := make([]model.Sample, 0, 2*count)
	for i := range list.Items {
		pod := &list.Items[i]
		switch {
		case pod.Timestamp.IsZero():
			skipped.WithLabelValues(metricsAPIName, withoutTime).Inc()
			continue
		case len(pod.Containers) == 0:
			skipped.WithLabelValues(metricsAPIName, withoutContainers).Inc()
		}
		id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
		for j := range pod.Containers {
			c := &pod.Containers[j]
			if q, told := c.Usage[corev1.ResourceCPU]; told {
				out = append(out, model.Sample{Pod: id, Container: c.Name, Resource: model.CPU, Amount: facts.MilliCPU(q), At: pod.Timestamp.Time})
			}
			if q, told := c.Usage[corev1.ResourceMemory]; told {
				out = append(out, model.Sample{Pod: id, Container: c.Name, Resource: model.Memory, Amount: facts.Bytes(q), At: pod.Timestamp.Time})
			}
		}
	}
	return out, nil
}
