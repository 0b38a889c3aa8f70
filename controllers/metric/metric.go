// Package metric declares metrics: what it returns is registered, and served on /metrics.
package metric

import (
	"math/bits"
	"strconv"
	"sync"

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

// Table is a gauge whose values are replaced together: a scrape sees those of before, or those of
// after.
type Table struct {
	*prometheus.GaugeVec
	mu sync.RWMutex
}

// NewTable returns a table with labels.
func NewTable(name, help string, labels ...string) *Table {
	t := &Table{GaugeVec: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)}
	metrics.Registry.MustRegister(t)
	return t
}

// Collect implements prometheus.Collector.
func (t *Table) Collect(into chan<- prometheus.Metric) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.GaugeVec.Collect(into)
}

// Replace empties tables, and has them filled again.
func Replace(fill func(), tables ...*Table) {
	for _, t := range tables {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.Reset()
	}
	fill()
}

// maxSize is the last of upstream's sizes.
const maxSize = 20

// Size is the value of label vpa_size_log2 for a number of pods: its binary logarithm, rounded down,
// at most 20; 0 for no pod.
func Size(pods int) string {
	return strconv.Itoa(min(bits.Len(uint(max(pods, 1)))-1, maxSize))
}
