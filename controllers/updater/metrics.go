package updater

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/metric"
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

// Names and labels are upstream's (UPSTREAM.md §6); names that begin with celvpa are
// our own.
var (
	latency = cycle.NewLatency("vpa_updater")

	evictedPods     = metric.Counter("vpa_updater_evicted_pods_total", "Pods evicted.", labelSize, labelMode, labelName, labelNamespace)
	failedEvictions = metric.Counter("vpa_updater_failed_eviction_attempts_total", "Failed evictions, by reason.", labelSize, labelMode, labelName, labelNamespace, "reason")
	resizedPods     = metric.Counter("vpa_updater_in_place_updated_pods_total", "Pods resized in place, ends of startup boosts included.", labelSize, labelName, labelNamespace)
	failedResizes   = metric.Counter("vpa_updater_failed_in_place_update_attempts_total", "Failed resizes, by reason.", labelSize, labelName, labelNamespace, "reason")
	infeasibleSkips = metric.Counter("vpa_updater_in_place_infeasible_skip_pods_total", "Pods skipped because the resize is infeasible on their node.", labelSize, labelName, labelNamespace)

	controlledPods = metric.NewTable("vpa_updater_controlled_pods_total", "Pods controlled by VPAs in the last cycle.", labelSize, labelMode)
	evictablePods  = metric.NewTable("vpa_updater_evictable_pods_total", "Pods to evict at the start of the last cycle, of VPAs that only evict.", labelSize, labelMode)
	vpasEvictable  = metric.NewTable("vpa_updater_vpas_with_evictable_pods_total", "VPAs with pods to evict at the start of the last cycle.", labelSize, labelMode)
	vpasEvicted    = metric.NewTable("vpa_updater_vpas_with_evicted_pods_total", "VPAs with a pod evicted in the last cycle.", labelSize, labelMode)
	updatablePods  = metric.NewTable("vpa_updater_in_place_updatable_pods_total", "Pods to resize, or evict instead, at the start of the last cycle, of VPAs that resize.", labelSize)
	vpasUpdatable  = metric.NewTable("vpa_updater_vpas_with_in_place_updatable_pods_total", "VPAs with pods to resize or evict at the start of the last cycle.", labelSize)
	vpasUpdated    = metric.NewTable("vpa_updater_vpas_with_in_place_updated_pods_total", "VPAs with a pod resized in the last cycle.", labelSize)
	invalidStatus  = metric.Counter("vpa_updater_admission_controller_status_invalid_total", "Cycles with evictions paused, by reason: the status lease of the admission controller could not be read (error) or has expired (invalid).", "reason")

	decidedPods   = metric.NewTable("celvpa_updater_pods", "Pods in the last cycle, by decision and the rule that made it.", "action", "rule")
	blockedPods   = metric.NewTable("celvpa_blocked_pods", "Pods that may need an update and were left as they are in the last cycle, by reason (waiting or misconfigured) and rule.", "reason", "rule")
	postponedPods = metric.NewTable("celvpa_updater_postponed_pods", "Pods whose eviction or resize the last cycle left to the next one, by reason: first-cycles (--first-cycle-evictions), rate-limit (--eviction-rate-limit) or deadline.", "reason")
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

// counted are the labels under which each VPA has been counted. To find the series of a VPA among
// those of all others takes milliseconds where they are many.
var countedVPAs = struct {
	mu      sync.Mutex
	as      map[types.NamespacedName][]labels
	reasons map[types.NamespacedName][]string // of failures
}{as: map[types.NamespacedName][]labels{}, reasons: map[types.NamespacedName][]string{}}

type labels struct{ size, mode string }

// failed notes a reason under which the VPA has been counted.
func (v counters) failed(reason string) {
	name := types.NamespacedName{Namespace: v.namespace, Name: v.name}
	countedVPAs.mu.Lock()
	defer countedVPAs.mu.Unlock()
	if !slices.Contains(countedVPAs.reasons[name], reason) {
		countedVPAs.reasons[name] = append(countedVPAs.reasons[name], reason)
	}
}

// counters count evictions and resizes for one VPA, whether a cycle or the end of a startup boost made them.
type counters struct {
	size, mode      string // values of labelSize and labelMode
	name, namespace string
}

// countersOf returns the counters of a VPA with so many pods.
func countersOf(v *vpav1.VerticalPodAutoscaler, pods int) counters {
	as := labels{metric.Size(pods), v.Mode()}
	name := types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	countedVPAs.mu.Lock()
	defer countedVPAs.mu.Unlock()
	if !slices.Contains(countedVPAs.as[name], as) {
		countedVPAs.as[name] = append(countedVPAs.as[name], as)
	}
	return counters{size: as.size, mode: as.mode, name: v.Name, namespace: v.Namespace}
}

// begin makes the counter of evictions start at 0.
func (v counters) begin() { evictedPods.WithLabelValues(v.size, v.mode, v.name, v.namespace) }

// evicted counts an eviction.
func (v counters) evicted() { evictedPods.WithLabelValues(v.size, v.mode, v.name, v.namespace).Inc() }

// evictionFailed counts a failed eviction.
func (v counters) evictionFailed(reason string) {
	v.failed(reason)
	failedEvictions.WithLabelValues(v.size, v.mode, v.name, v.namespace, reason).Inc()
}

// resized counts a resize.
func (v counters) resized() { resizedPods.WithLabelValues(v.size, v.name, v.namespace).Inc() }

// resizeFailed counts a failed resize.
func (v counters) resizeFailed(reason string) {
	v.failed(reason)
	failedResizes.WithLabelValues(v.size, v.name, v.namespace, reason).Inc()
}

// skippedAsInfeasible counts a pod that is skipped because its resize is infeasible.
func (v counters) skippedAsInfeasible() {
	infeasibleSkips.WithLabelValues(v.size, v.name, v.namespace).Inc()
}

// forgetCounters drops the series of a VPA that is gone.
func forgetCounters(v types.NamespacedName) {
	countedVPAs.mu.Lock()
	defer countedVPAs.mu.Unlock()
	for _, as := range countedVPAs.as[v] {
		evictedPods.DeleteLabelValues(as.size, as.mode, v.Name, v.Namespace)
		resizedPods.DeleteLabelValues(as.size, v.Name, v.Namespace)
		for _, reason := range countedVPAs.reasons[v] {
			failedEvictions.DeleteLabelValues(as.size, as.mode, v.Name, v.Namespace, reason)
			failedResizes.DeleteLabelValues(as.size, v.Name, v.Namespace, reason)
		}
		infeasibleSkips.DeleteLabelValues(as.size, v.Name, v.Namespace)
	}
	delete(countedVPAs.as, v)
	delete(countedVPAs.reasons, v)
}
