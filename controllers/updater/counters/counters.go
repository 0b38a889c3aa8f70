// Package counters counts evictions and resizes by VPA, whether a cycle or the end of a startup
// boost made them.
package counters

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/metric"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Labels of metrics about VPAs.
const (
	LabelSize      = "vpa_size_log2"
	LabelMode      = "update_mode"
	labelName      = "vpa_name"
	labelNamespace = "vpa_namespace"
)

// Reasons of failed evictions and resizes.
const (
	Eviction      = "EvictionError"
	EvictionLimit = "EvictionRateLimiterWaitFailed"
	Resize        = "InPlaceUpdateError"
	Infeasible    = "InPlaceUpdateInfeasible"
	ResizeLimit   = "InPlaceUpdateRateLimiterWaitFailed"
	Unboost       = "UnboostError"
)

// Names and labels are upstream's (UPSTREAM.md §6, Appendix A 4).
var (
	EvictedPods     = metric.Counter("vpa_updater_evicted_pods_total", "Pods evicted.", LabelSize, LabelMode, labelName, labelNamespace)
	FailedEvictions = metric.Counter("vpa_updater_failed_eviction_attempts_total", "Failed evictions, by reason.", LabelSize, LabelMode, labelName, labelNamespace, "reason")
	ResizedPods     = metric.Counter("vpa_updater_in_place_updated_pods_total", "Pods resized in place, ends of startup boosts included.", LabelSize, labelName, labelNamespace)
	FailedResizes   = metric.Counter("vpa_updater_failed_in_place_update_attempts_total", "Failed resizes, by reason.", LabelSize, labelName, labelNamespace, "reason")
	InfeasibleSkips = metric.Counter("vpa_updater_in_place_infeasible_skip_pods_total", "Pods skipped because the resize is infeasible on their node.", LabelSize, labelName, labelNamespace)
)

// counted are the labels under which each VPA has been counted. To find the series of a VPA among
// those of all others takes milliseconds where they are many.
var counted = struct {
	mu      sync.Mutex
	as      map[types.NamespacedName][]labels
	reasons map[types.NamespacedName][]string // of failures
}{as: map[types.NamespacedName][]labels{}, reasons: map[types.NamespacedName][]string{}}

type labels struct{ size, mode string }

// failed notes a reason under which the VPA has been counted.
func (v VPA) failed(reason string) {
	name := types.NamespacedName{Namespace: v.namespace, Name: v.name}
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if !slices.Contains(counted.reasons[name], reason) {
		counted.reasons[name] = append(counted.reasons[name], reason)
	}
}

// VPA counts for one VPA.
type VPA struct {
	Size, Mode      string // values of LabelSize and LabelMode
	name, namespace string
}

// Of returns the counters of a VPA with so many pods.
func Of(v *vpav1.VerticalPodAutoscaler, pods int) VPA {
	as := labels{metric.Size(pods), v.Mode()}
	name := types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if !slices.Contains(counted.as[name], as) {
		counted.as[name] = append(counted.as[name], as)
	}
	return VPA{Size: as.size, Mode: as.mode, name: v.Name, namespace: v.Namespace}
}

// Begin makes the counter of evictions start at 0.
func (v VPA) Begin() { EvictedPods.WithLabelValues(v.Size, v.Mode, v.name, v.namespace) }

// Evicted counts an eviction.
func (v VPA) Evicted() { EvictedPods.WithLabelValues(v.Size, v.Mode, v.name, v.namespace).Inc() }

// EvictionFailed counts a failed eviction.
func (v VPA) EvictionFailed(reason string) {
	v.failed(reason)
	FailedEvictions.WithLabelValues(v.Size, v.Mode, v.name, v.namespace, reason).Inc()
}

// Resized counts a resize.
func (v VPA) Resized() { ResizedPods.WithLabelValues(v.Size, v.name, v.namespace).Inc() }

// ResizeFailed counts a failed resize.
func (v VPA) ResizeFailed(reason string) {
	v.failed(reason)
	FailedResizes.WithLabelValues(v.Size, v.name, v.namespace, reason).Inc()
}

// SkippedAsInfeasible counts a pod that is skipped because its resize is infeasible.
func (v VPA) SkippedAsInfeasible() {
	InfeasibleSkips.WithLabelValues(v.Size, v.name, v.namespace).Inc()
}

// Forget drops the series of a VPA that is gone.
func Forget(v types.NamespacedName) {
	counted.mu.Lock()
	defer counted.mu.Unlock()
	for _, as := range counted.as[v] {
		EvictedPods.DeleteLabelValues(as.size, as.mode, v.Name, v.Namespace)
		ResizedPods.DeleteLabelValues(as.size, v.Name, v.Namespace)
		for _, reason := range counted.reasons[v] {
			FailedEvictions.DeleteLabelValues(as.size, as.mode, v.Name, v.Namespace, reason)
			FailedResizes.DeleteLabelValues(as.size, v.Name, v.Namespace, reason)
		}
		InfeasibleSkips.DeleteLabelValues(as.size, v.Name, v.Namespace)
	}
	delete(counted.as, v)
	delete(counted.reasons, v)
}
