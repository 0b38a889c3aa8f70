package recommender

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/cycle"
)

// Metric names and labels are upstream's (UPSTREAM.md §6).
var (
	metricResponses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vpa_recommender_metric_server_responses",
		Help: "Answers of metrics sources, by whether they failed.",
	}, []string{"is_error", "client_name"})

	latency = cycle.NewLatency("vpa_recommender")

	aggregatesCount = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "vpa_recommender_aggregate_container_states_count",
		Help: "Containers with distinct names and pod labels whose usage is remembered.",
	})

	recommendationLatency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "vpa_recommender_recommendation_latency_seconds",
		Help:    "Time from a VPA's creation to its first recommendation.",
		Buckets: []float64{1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180, 240, 300, 600, 900, 1800},
	})
)

func init() {
	metrics.Registry.MustRegister(metricResponses, latency, aggregatesCount, recommendationLatency)
}
