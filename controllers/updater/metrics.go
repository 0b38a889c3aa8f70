package updater

import (
	"math/bits"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/cycle"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Labels of metrics about VPAs.
const (
	labelSize      = "vpa_size_log2"
	labelMode      = "update_mode"
	labelName      = "vpa_name"
	labelNamespace = "vpa_namespace"
)

// Reasons of failed evictions and resizes.
const (
	reasonEviction      = "EvictionError"
	reasonEvictionLimit = "EvictionRateLimiterWaitFailed"
	reasonResize        = "InPlaceUpdateError"
	reasonInfeasible    = "InPlaceUpdateInfeasible"
	reasonResizeLimit   = "InPlaceUpdateRateLimiterWaitFailed"
	reasonUnboost       = "UnboostError"
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

	controlledPods  = gauge("vpa_updater_controlled_pods_total", "Pods controlled by VPAs in the last cycle.", labelSize, labelMode)
	evictablePods   = gauge("vpa_updater_evictable_pods_total", "Pods to evict at the start of the last cycle, of VPAs that only evict.", labelSize, labelMode)
	vpasEvictable   = gauge("vpa_updater_vpas_with_evictable_pods_total", "VPAs with pods to evict at the start of the last cycle.", labelSize, labelMode)
	vpasEvicted     = gauge("vpa_updater_vpas_with_evicted_pods_total", "VPAs with a pod evicted in the last cycle.", labelSize, labelMode)
	updatablePods   = gauge("vpa_updater_in_place_updatable_pods_total", "Pods to resize, or evict instead, at the start of the last cycle, of VPAs that resize.", labelSize)
	vpasUpdatable   = gauge("vpa_updater_vpas_with_in_place_updatable_pods_total", "VPAs with pods to resize or evict at the start of the last cycle.", labelSize)
	vpasUpdated     = gauge("vpa_updater_vpas_with_in_place_updated_pods_total", "VPAs with a pod resized in the last cycle.", labelSize)
	evictedPods     = counter("vpa_updater_evicted_pods_total", "Pods evicted.", labelSize, labelMode, labelName, labelNamespace)
	failedEvictions = counter("vpa_updater_failed_eviction_attempts_total", "Failed evictions, by reason.", labelSize, labelMode, labelName, labelNamespace, "reason")
	resizedPods     = counter("vpa_updater_in_place_updated_pods_total", "Pods resized in place, ends of startup boosts included.", labelSize, labelName, labelNamespace)
	failedResizes   = counter("vpa_updater_failed_in_place_update_attempts_total", "Failed resizes, by reason.", labelSize, labelName, labelNamespace, "reason")
	infeasibleSkips = counter("vpa_updater_in_place_infeasible_skip_pods_total", "Pods skipped because the resize is infeasible on their node.", labelSize, labelName, labelNamespace)
	invalidStatus   = counter("vpa_updater_admission_controller_status_invalid_total", "Cycles with evictions paused, by reason: the status lease of the admission controller could not be read (error) or has expired (invalid).", "reason")

	decidedPods   = gauge("celvpa_updater_pods", "Pods in the last cycle, by decision and the rule that made it.", "action", "rule")
	postponedPods = gauge("celvpa_updater_postponed_pods", "Pods whose eviction or resize the last cycle left to the next one, by reason: first-cycles (--first-cycle-evictions), rate-limit (--eviction-rate-limit) or deadline.", "reason")
	unreachedVPAs = prometheus.NewGauge(prometheus.GaugeOpts{Name: "celvpa_updater_unreached_vpas", Help: "VPAs that the last cycle did not finish because of its deadline or a rate limit. The next cycle starts with them."})
	panics        = prometheus.NewCounter(prometheus.CounterOpts{Name: "celvpa_updater_panics_total", Help: "VPAs whose pods were skipped because of a panic, a bug in celvpa."})
)

// ofVPAs are the counters that have a series for each VPA.
var ofVPAs = []*prometheus.CounterVec{evictedPods, failedEvictions, resizedPods, failedResizes, infeasibleSkips}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func init() {
	metrics.Registry.MustRegister(latency, controlledPods, evictablePods, vpasEvictable, vpasEvicted, updatablePods, vpasUpdatable, vpasUpdated,
		evictedPods, failedEvictions, resizedPods, failedResizes, infeasibleSkips, invalidStatus, decidedPods, postponedPods, unreachedVPAs, panics)
	for _, reason := range []string{statusError, statusInvalid} { // start at 0, so that the first one is an increase
		invalidStatus.WithLabelValues(reason)
	}
}

// Reasons of paused evictions.
const (
	statusError   = "error"
	statusInvalid = "invalid"
)

// counted is the labels of a VPA in counters.
type counted struct{ size, mode, name, namespace string }

// maxSize is the last of upstream's sizes.
const maxSize = 20

// countedOf are the labels of a VPA with so many pods.
func countedOf(v *vpav1.VerticalPodAutoscaler, pods int) counted {
	size := 0
	if pods > 0 {
		size = min(bits.Len(uint(pods))-1, maxSize)
	}
	return counted{size: strconv.Itoa(size), mode: modeOf(v), name: v.Name, namespace: v.Namespace}
}

// modeOf is the update mode of a VPA, with its default.
func modeOf(v *vpav1.VerticalPodAutoscaler) string {
	if p := v.Spec.UpdatePolicy; p != nil && p.UpdateMode != nil && *p.UpdateMode != "" {
		return string(*p.UpdateMode)
	}
	return string(vpav1.UpdateModeRecreate)
}

// begin makes the counters of a VPA start at 0.
func (c counted) begin() { evictedPods.WithLabelValues(c.size, c.mode, c.name, c.namespace) }

func (c counted) evicted() { evictedPods.WithLabelValues(c.size, c.mode, c.name, c.namespace).Inc() }

func (c counted) evictionFailed(reason string) {
	failedEvictions.WithLabelValues(c.size, c.mode, c.name, c.namespace, reason).Inc()
}

func (c counted) resized() { resizedPods.WithLabelValues(c.size, c.name, c.namespace).Inc() }

func (c counted) resizeFailed(reason string) {
	failedResizes.WithLabelValues(c.size, c.name, c.namespace, reason).Inc()
}

func (c counted) skippedAsInfeasible() {
	infeasibleSkips.WithLabelValues(c.size, c.name, c.namespace).Inc()
}

// forgetCounters drops the series of a VPA that is gone.
func forgetCounters(v types.NamespacedName) {
	for _, c := range ofVPAs {
		c.DeletePartialMatch(prometheus.Labels{labelName: v.Name, labelNamespace: v.Namespace})
	}
}
