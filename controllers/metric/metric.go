// Package metric declares metrics: what it returns is registered, and served on /metrics.
package metric

import (
	"math/bits"
	"strconv"

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

// maxSize is the last of upstream's sizes.
const maxSize = 20

// Size is the value of label vpa_size_log2 for a number of pods: its binary logarithm, rounded down,
// at most 20; 0 for no pod.
func Size(pods int) string {
	return strconv.Itoa(min(bits.Len(uint(max(pods, 1)))-1, maxSize))
}
