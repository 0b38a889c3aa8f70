package recommender

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// Source supplies samples of usage.
type Source interface {
	// Samples returns what is known now. Samples that were returned before are recognised by their time.
	Samples(ctx context.Context) ([]model.Sample, error)
}

// MetricsAPI reads metrics.k8s.io, which metrics-server serves (UPSTREAM.md §2.8).
type MetricsAPI struct {
	Client    metricsclient.PodMetricsesGetter
	Namespace string // empty = all
}

// Samples implements Source: CPU in milli-cores, memory in bytes; a resource the API leaves out counts as 0.
func (m MetricsAPI) Samples(ctx context.Context) ([]model.Sample, error) {
	list, err := m.Client.PodMetricses(m.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		metricResponses.WithLabelValues("true", "default-metrics-client").Inc()
		return nil, fmt.Errorf("listing pod metrics (is metrics-server installed?): %w", err)
	}
	metricResponses.WithLabelValues("false", "default-metrics-client").Inc()
	var out []model.Sample
	for _, pod := range list.Items {
		for _, c := range pod.Containers {
			out = append(out, model.Sample{
				Pod:       model.PodID{Namespace: pod.Namespace, Name: pod.Name},
				Container: c.Name,
				At:        pod.Timestamp.Time,
				CPU:       facts.MilliCPU(*c.Usage.Cpu()),
				Memory:    facts.Bytes(*c.Usage.Memory()),
			})
		}
	}
	return out, nil
}
