package updater

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/metric"
	"github.com/celvpa/celvpa/controllers/updater/counters"
)

// Reasons of postponed evictions and resizes.
const (
	postponedByStart    = "first-cycles"
	postponedByRate     = "rate-limit"
	postponedByDeadline = "deadline"
)

// Names and labels are upstream's (UPSTREAM.md §6, Appendix A 4); names that begin with celvpa are
// our own.
var (
	latency = cycle.NewLatency("vpa_updater")

	controlledPods = metric.Gauge("vpa_updater_controlled_pods_total", "Pods controlled by VPAs in the last cycle.", counters.LabelSize, counters.LabelMode)
	evictablePods  = metric.Gauge("vpa_updater_evictable_pods_total", "Pods to evict at the start of the last cycle, of VPAs that only evict.", counters.LabelSize, counters.LabelMode)
	vpasEvictable  = metric.Gauge("vpa_updater_vpas_with_evictable_pods_total", "VPAs with pods to evict at the start of the last cycle.", counters.LabelSize, counters.LabelMode)
	vpasEvicted    = metric.Gauge("vpa_updater_vpas_with_evicted_pods_total", "VPAs with a pod evicted in the last cycle.", counters.LabelSize, counters.LabelMode)
	updatablePods  = metric.Gauge("vpa_updater_in_place_updatable_pods_total", "Pods to resize, or evict instead, at the start of the last cycle, of VPAs that resize.", counters.LabelSize)
	vpasUpdatable  = metric.Gauge("vpa_updater_vpas_with_in_place_updatable_pods_total", "VPAs with pods to resize or evict at the start of the last cycle.", counters.LabelSize)
	vpasUpdated    = metric.Gauge("vpa_updater_vpas_with_in_place_updated_pods_total", "VPAs with a pod resized in the last cycle.", counters.LabelSize)
	invalidStatus  = metric.Counter("vpa_updater_admission_controller_status_invalid_total", "Cycles with evictions paused, by reason: the status lease of the admission controller could not be read (error) or has expired (invalid).", "reason")

	decidedPods   = metric.Gauge("celvpa_updater_pods", "Pods in the last cycle, by decision and the rule that made it.", "action", "rule")
	blockedPods   = metric.Gauge("celvpa_blocked_pods", "Pods that the last cycle left as they are although they may need an update, by reason, waiting (time or the cluster resolves it) or misconfigured (somebody has to change something), and by rule.", "reason", "rule")
	postponedPods = metric.Gauge("celvpa_updater_postponed_pods", "Pods whose eviction or resize the last cycle left to the next one, by reason: first-cycles (--first-cycle-evictions), rate-limit (--eviction-rate-limit) or deadline.", "reason")
	unreachedVPAs = metric.New.NewGauge(prometheus.GaugeOpts{Name: "celvpa_updater_unreached_vpas", Help: "VPAs that the last cycle did not finish because of its deadline or a rate limit. The next cycle starts with them."})
	panics        = metric.New.NewCounter(prometheus.CounterOpts{Name: "celvpa_updater_panics_total", Help: "VPAs whose pods were skipped because of a panic, a bug in celvpa."})
)

func init() {
	for _, reason := range []string{statusError, statusInvalid} { // start at 0, so that the first one is an increase
		invalidStatus.WithLabelValues(reason)
	}
}

// Reasons of paused evictions.
const (
	statusError   = "error"
	statusInvalid = "invalid"
)
