package policy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/engine"
)

var (
	rulesInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "celvpa_rules_info",
		Help: "The pipeline that is in force, by name, version and digest.",
	}, []string{"pipeline", "version", "digest"})

	reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_rules_reload_total",
		Help: "Times that changed rules were loaded, by result: success, or error and the last good ones stayed.",
	}, []string{"result"})

	lastSuccess = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "celvpa_rules_last_success_timestamp_seconds",
		Help: "When the rules in force were loaded.",
	})
)

func init() { metrics.Registry.MustRegister(rulesInfo, reloads, lastSuccess) }

// inForce tells metrics which plan a process runs.
func inForce(plan *engine.Plan, now time.Time) {
	name, version := plan.NameAndVersion()
	rulesInfo.Reset()
	rulesInfo.WithLabelValues(name, version, plan.Digest()).Set(1)
	lastSuccess.Set(float64(now.Unix()))
}
