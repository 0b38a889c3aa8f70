package oom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/celvpa/celvpa/controllers/metric"
)

// The values of label source: where a container that ran out of memory was seen.
const (
	fromPod      = "pod"
	fromEviction = "eviction"
)

var (
	ooms = metric.Counter("celvpa_recommender_ooms_total", "Containers that ran out of memory, by source: pod status or eviction event.", "source")

	dropped = metric.New.NewCounter(prometheus.CounterOpts{
		Name: "celvpa_recommender_ooms_dropped_total",
		Help: "Out-of-memory reports dropped because too many came between two cycles.",
	})

	faultyEvictions = metric.New.NewCounter(prometheus.CounterOpts{
		Name: "celvpa_recommender_faulty_eviction_events_total",
		Help: "Eviction events ignored, completely or in part, because they could not be read.",
	})
)

func init() {
	for _, source := range []string{fromPod, fromEviction} {
		ooms.WithLabelValues(source)
	}
}
