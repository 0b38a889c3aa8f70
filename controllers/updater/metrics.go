package updater

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/cycle"
)

// Metric names are upstream's (UPSTREAM.md §6).
var (
	latency = cycle.NewLatency("vpa_updater")

	evictedPods     = counter("vpa_updater_evicted_pods_total", "Pods evicted.")
	failedEvictions = counter("vpa_updater_failed_eviction_attempts_total", "Evictions that the API server refused.", "reason")
	resizedPods     = counter("vpa_updater_in_place_updated_pods_total", "Pods resized in place.")
	failedResizes   = counter("vpa_updater_failed_in_place_update_attempts_total", "Resizes that the API server refused.", "reason")
)

// counter counts by VPA and further labels.
func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"vpa_name", "vpa_namespace"}, labels...))
}

func init() {
	metrics.Registry.MustRegister(latency, evictedPods, failedEvictions, resizedPods, failedResizes)
}
