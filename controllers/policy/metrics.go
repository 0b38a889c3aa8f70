package policy

import (
	"time"

	"github.com/go-logr/logr"
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

// ruleErrors counts rules that failed at run time. Its label is bounded by the rules that are loaded.
var ruleErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "celvpa_rule_errors_total",
	Help: "Rules that failed when they ran, by rule set, stage and rule. What they would have set stays as it was.",
}, []string{"rule"})

func init() { metrics.Registry.MustRegister(rulesInfo, reloads, lastSuccess, ruleErrors) }

// Report logs and counts rules that failed at run time; consequence says what that means for the object at hand.
func Report(log logr.Logger, consequence string, failed ...*engine.RuleError) {
	for _, e := range failed {
		if e == nil {
			continue
		}
		ruleErrors.WithLabelValues(e.Path).Inc()
		log.Error(e, "a rule failed; "+consequence)
	}
}

// inForce tells metrics which plan a process runs.
func inForce(plan *engine.Plan, now time.Time) {
	name, version := plan.NameAndVersion()
	rulesInfo.Reset()
	rulesInfo.WithLabelValues(name, version, plan.Digest()).Set(1)
	lastSuccess.Set(float64(now.Unix()))
}
