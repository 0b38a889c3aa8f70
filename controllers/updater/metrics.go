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

// The labels of what is counted of VPAs.
const (
	labelSize      = "vpa_size_log2"
	labelMode      = "update_mode"
	labelName      = "vpa_name"
	labelNamespace = "vpa_namespace"
)

// Why evictions and resizes fail.
const (
	reasonEviction      = "EvictionError"
	reasonEvictionLimit = "EvictionRateLimiterWaitFailed"
	reasonResize        = "InPlaceUpdateError"
	reasonInfeasible    = "InPlaceUpdateInfeasible"
	reasonResizeLimit   = "InPlaceUpdateRateLimiterWaitFailed"
	reasonUnboost       = "UnboostError"
)

// Metric names and labels are upstream's (UPSTREAM.md §6, Appendix A 4), those that begin with celvpa our own.
var (
	latency = cycle.NewLatency("vpa_updater")

	controlledPods  = gauge("vpa_updater_controlled_pods_total", "Pods of VPAs, in the last cycle.", labelSize, labelMode)
	evictablePods   = gauge("vpa_updater_evictable_pods_total", "Pods that the rules would have evicted at the beginning of the last cycle, of VPAs that only evict.", labelSize, labelMode)
	vpasEvictable   = gauge("vpa_updater_vpas_with_evictable_pods_total", "VPAs that have such pods.", labelSize, labelMode)
	vpasEvicted     = gauge("vpa_updater_vpas_with_evicted_pods_total", "VPAs of which a pod was evicted in the last cycle.", labelSize, labelMode)
	updatablePods   = gauge("vpa_updater_in_place_updatable_pods_total", "Pods that the rules would have resized, or evicted instead, at the beginning of the last cycle, of VPAs that resize.", labelSize)
	vpasUpdatable   = gauge("vpa_updater_vpas_with_in_place_updatable_pods_total", "VPAs that have such pods.", labelSize)
	vpasUpdated     = gauge("vpa_updater_vpas_with_in_place_updated_pods_total", "VPAs of which a pod was resized in the last cycle.", labelSize)
	evictedPods     = counter("vpa_updater_evicted_pods_total", "Pods evicted.", labelSize, labelMode, labelName, labelNamespace)
	failedEvictions = counter("vpa_updater_failed_eviction_attempts_total", "Evictions that were not carried out, by reason.", labelSize, labelMode, labelName, labelNamespace, "reason")
	resizedPods     = counter("vpa_updater_in_place_updated_pods_total", "Pods resized in place, also where a startup boost ended.", labelSize, labelName, labelNamespace)
	failedResizes   = counter("vpa_updater_failed_in_place_update_attempts_total", "Resizes that were not carried out, by reason.", labelSize, labelName, labelNamespace, "reason")
	infeasibleSkips = counter("vpa_updater_in_place_infeasible_skip_pods_total", "Pods left alone because their node cannot give what they would be given.", labelSize, labelName, labelNamespace)
	invalidStatus   = counter("vpa_updater_admission_controller_status_invalid_total", "Cycles in which the admission controller was taken for dead, by reason: its lease could not be read (error) or was not renewed (invalid).", "reason")

	decidedPods   = gauge("celvpa_updater_pods", "Pods in the last cycle, by what was decided on them and the rule that did.", "action", "rule")
	unreachedVPAs = prometheus.NewGauge(prometheus.GaugeOpts{Name: "celvpa_updater_unreached_vpas", Help: "VPAs of which the last cycle left something undone, because its time or a rate limit was over. The next one begins with them."})
	panics        = prometheus.NewCounter(prometheus.CounterOpts{Name: "celvpa_updater_panics_total", Help: "VPAs whose pods were left alone because of a panic, which is a fault of celvpa."})
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
		evictedPods, failedEvictions, resizedPods, failedResizes, infeasibleSkips, invalidStatus, decidedPods, unreachedVPAs, panics)
	for _, reason := range []string{statusError, statusInvalid} { // from 0 on, so that the first one is an increase
		invalidStatus.WithLabelValues(reason)
	}
}

// Why the admission controller is taken for dead.
const (
	statusError   = "error"
	statusInvalid = "invalid"
)

// counted is a VPA as counters know it.
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

// begin makes the counters of a VPA begin at 0.
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
