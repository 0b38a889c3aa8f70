package usage

import (
	"strconv"

	"github.com/celvpa/celvpa/controllers/metric"
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
	unreadableUsage   = "unreadable" // a pod
)

var (
	// responses has upstream's name and labels (UPSTREAM.md §6).
	responses = metric.Counter("vpa_recommender_metric_server_responses", "Responses of metrics sources, by whether they failed.", "is_error", "client_name")
	skipped   = metric.Counter("celvpa_recommender_usage_skipped_total", "Pods or values in responses of metrics sources that gave no sample, by reason.", "client_name", "reason")
)

func answered(client string, err error) {
	responses.WithLabelValues(strconv.FormatBool(err != nil), client).Inc()
}
