package webhook

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	autoscaling "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// targetIndex finds objects by what they scale. Listing a whole namespace would take longer than the rest of the review.
const targetIndex = "celvpa.target"

// customTargets finds the VerticalPodAutoscalers whose targets are of custom kinds. It collides with no key of a target.
const customTargets = "custom"

// targetKey has no group, because users may leave it out.
func targetKey(kind, name string) string { return kind + "/" + name }

// IndexTargets indexes VerticalPodAutoscalers, and with hpas HorizontalPodAutoscalers, by their target. Call it before the cache
// starts.
func IndexTargets(ctx context.Context, cache client.FieldIndexer, hpas bool) error {
	err := cache.IndexField(ctx, &vpav1.VerticalPodAutoscaler{}, targetIndex, func(o client.Object) []string {
		v := o.(*vpav1.VerticalPodAutoscaler)
		ref := v.Spec.TargetRef
		if ref == nil {
			return nil
		}
		keys := []string{targetKey(ref.Kind, ref.Name)}
		if !target.PodsAlike(v) {
			keys = append(keys, customTargets)
		}
		return keys
	})
	if err != nil {
		return fmt.Errorf("indexing VerticalPodAutoscalers: %w", err)
	}
	if !hpas {
		return nil
	}
	err = cache.IndexField(ctx, &autoscalingv2.HorizontalPodAutoscaler{}, targetIndex, func(o client.Object) []string {
		ref := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
		return []string{targetKey(ref.Kind, ref.Name)}
	})
	if err != nil {
		return fmt.Errorf("indexing HorizontalPodAutoscalers: %w", err)
	}
	return nil
}

// withTarget lists by the index. Callers only read the result, so it is not copied out of the cache.
func withTarget(namespace, key string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.MatchingFields{targetIndex: key}}
}

// beside lists what else scales the target of a VPA, if it has one. It only feeds warnings, so a failure does not stop the review.
func (h *Handler) beside(ctx context.Context, namespace string, of *autoscaling.CrossVersionObjectReference, log logr.Logger) (out facts.Beside) {
	if of == nil || h.Client == nil {
		return out
	}
	options := withTarget(namespace, targetKey(of.Kind, of.Name))
	var vpas vpav1.VerticalPodAutoscalerList
	if err := h.Client.List(ctx, &vpas, options...); err != nil {
		log.Error(err, "cannot warn about other VerticalPodAutoscalers of the same target")
	}
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if h.HPAs {
		if err := h.Client.List(ctx, &hpas, options...); err != nil {
			log.Error(err, "cannot warn about HorizontalPodAutoscalers of the same target")
		}
	}
	return facts.Beside{VPAs: vpas.Items, HPAs: hpas.Items}
}
