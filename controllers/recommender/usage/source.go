// Package usage reads the current usage of containers from metrics-server, or from an adapter that
// serves external metrics (UPSTREAM.md §2.8). It passes samples on as they are; the model and the
// rules decide which count.
package usage

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celvpa/celvpa/controllers/metric"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// Source supplies samples of usage.
type Source interface {
	// Samples returns the current samples: CPU in milli-cores, memory in bytes, saturated at the
	// limits of int64, negative amounts unchanged. The time of a sample identifies repeated ones.
	// Samples returned with an error are good.
	Samples(ctx context.Context) ([]model.Sample, error)
}

// explain adds the way out to the error of an aggregated API.
func explain(err error, group, resource, provider string) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; allow this process to get and list %s in API group %s", err, resource, group)
	case apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%w; is %s installed, and does `kubectl get apiservice v1beta1.%s` call it available?", err, provider, group)
	}
	return fmt.Errorf("%w; see the log of %s", err, provider)
}

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
