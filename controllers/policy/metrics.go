package policy

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/celvpa/celvpa/controllers/metric"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

var (
	rulesInfo       = metric.NewTable("celvpa_rules_info", "The pipelines that are loaded, by name, version and digest (without overlays).", "pipeline", "version", "digest")
	overlaysInfo    = metric.NewTable("celvpa_rule_overlays_info", "The overlays that are loaded, by name and mode.", "overlay", "mode")
	overlayAccepted = metric.NewTable("celvpa_rule_overlay_accepted", "1 for each RuleOverlay whose current generation is in force, 0 for the others.", "overlay")
	reloads         = metric.Counter("celvpa_rules_reload_total", "Reloads of changed rules, by result. After an error the last good rules stay in force.", "result")

	lastSuccess = metric.New.NewGauge(prometheus.GaugeOpts{
		Name: "celvpa_rules_last_success_timestamp_seconds",
		Help: "Time of the last reload without an error in the files.",
	})
)

// ruleErrors counts rules that failed at run time. Its label is bounded by the rules that are
// loaded.
var ruleErrors = metric.Counter("celvpa_rule_errors_total", "Rules that failed at run time, by rule set, stage and rule. The values that they set stay unchanged.", "rule")

// slowRules counts runs from which rules were left out. Its labels are bounded by the rules that are loaded.
var slowRules = metric.Counter("celvpa_slow_rules_total",
	"Runs in which a rule set, or an overlay in it, took too many steps or too much memory, and was left out from there on.", "rule_set", "overlay")

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
			if slow := e.Slow; slow != nil {
				slowRules.WithLabelValues(slow.RuleSet, slow.Overlay).Inc()
			}
		}
	}
}

// inForce updates the metrics about the rules in force.
func inForce(book *compile.Rulebook) {
	metric.Replace(func() {
		for _, plan := range book.Plans() {
			name, version := plan.NameAndVersion()
			rulesInfo.WithLabelValues(name, version, plan.Digest()).Set(1)
		}
		for _, o := range book.Overlays() {
			overlaysInfo.WithLabelValues(o.Name.Value, o.ModeOf()).Set(1)
		}
	}, rulesInfo, overlaysInfo)
}
