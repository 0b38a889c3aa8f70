package usage

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The values of label client_name. The first is upstream's.
const (
	metricsAPIName = "default-metrics-client"
	externalName   = "external-metrics-client"
)

// The values of label reason: why usage gives no sample.
const (
	withoutTime       = "no_timestamp"
	withoutContainers = "no_containers" // a pod
	withoutName       = "no_container_label"
)

var (
	// responses has upstream's name and labels (UPSTREAM.md §6).
	responses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vpa_recommender_metric_server_responses",
		Help: "Responses of metrics sources, by whether they failed.",
	}, []string{"is_error", "client_name"})

	skipped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_recommender_usage_skipped_total",
		Help: "Pods or values in responses of metrics sources that gave no sample, by reason.",
	}, []string{"client_name", "reason"})
)

func init() {
	metrics.Registry.MustRegister(responses, skipped)
}

func answered(client string, err error) {
	responses.WithLabelValues(strconv.FormatBool(err != nil), client).Inc()
}
