package policy

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

var (
	rulesInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "celvpa_rules_info",
		Help: "The pipelines that are loaded, by name, version and digest (without overlays).",
	}, []string{"pipeline", "version", "digest"})

	overlaysInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "celvpa_rule_overlays_info",
		Help: "The overlays that are loaded, by name and mode.",
	}, []string{"overlay", "mode"})

	overlayAccepted = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "celvpa_rule_overlay_accepted",
		Help: "1 for each RuleOverlay whose current generation is in force, 0 for the others.",
	}, []string{"overlay"})

	reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_rules_reload_total",
		Help: "Reloads of changed rules, by result. After an error the last good rules stay in force.",
	}, []string{"result"})

	lastSuccess = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "celvpa_rules_last_success_timestamp_seconds",
		Help: "Time of the last reload without an error in the files.",
	})
)

// ruleErrors counts rules that failed at run time. Its label is bounded by the rules that are
// loaded.
var ruleErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "celvpa_rule_errors_total",
	Help: "Rules that failed at run time, by rule set, stage and rule. The values that they set stay unchanged.",
}, []string{"rule"})

func init() {
	metrics.Registry.MustRegister(rulesInfo, overlaysInfo, overlayAccepted, reloads, lastSuccess, ruleErrors, differences)
}

// Report logs and counts rules that failed at run time; consequence is what that means for the
// object at hand.
func Report(log logr.Logger, consequence string, failed ...*engine.RuleError) {
	Count(failed...)
	for _, e := range failed {
		if e != nil {
			log.Error(e, "rule failed", "consequence", consequence)
		}
	}
}

// Count counts rules that failed at run time, for callers that log them themselves.
func Count(failed ...*engine.RuleError) {
	for _, e := range failed {
		if e != nil {
			ruleErrors.WithLabelValues(e.Path).Inc()
		}
	}
}

// inForce updates the metrics about the rules in force.
func inForce(book *compile.Rulebook) {
	rulesInfo.Reset()
	for _, plan := range book.Plans() {
		name, version := plan.NameAndVersion()
		rulesInfo.WithLabelValues(name, version, plan.Digest()).Set(1)
	}
	overlaysInfo.Reset()
	for _, o := range book.Overlays() {
		overlaysInfo.WithLabelValues(o.Name.Value, o.ModeOf()).Set(1)
	}
}
