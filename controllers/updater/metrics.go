package updater

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metric names are upstream's (UPSTREAM.md §6).
var (
	executionLatency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "vpa_updater_execution_latency_seconds",
		Help:    "Time spent in the steps of an updater cycle.",
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 240, 300},
	}, []string{"step"})

	evictedPods = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vpa_updater_evicted_pods_total",
		Help: "Pods evicted.",
	}, []string{"vpa_name", "vpa_namespace"})

	failedEvictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vpa_updater_failed_eviction_attempts_total",
		Help: "Evictions that the API server refused.",
	}, []string{"vpa_name", "vpa_namespace", "reason"})

	resizedPods = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vpa_updater_in_place_updated_pods_total",
		Help: "Pods resized in place.",
	}, []string{"vpa_name", "vpa_namespace"})

	failedResizes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vpa_updater_failed_in_place_update_attempts_total",
		Help: "Resizes that the API server refused.",
	}, []string{"vpa_name", "vpa_namespace", "reason"})
)

func init() {
	metrics.Registry.MustRegister(executionLatency, evictedPods, failedEvictions, resizedPods, failedResizes)
}
