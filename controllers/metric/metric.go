// Package metric declares metrics: what it returns is registered, and served on /metrics.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// New registers the metrics that it makes, with controller-runtime's registry.
var New = promauto.With(metrics.Registry)

// Counter returns a counter with labels.
func Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return New.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauge returns a gauge with labels.
func Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return New.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}
