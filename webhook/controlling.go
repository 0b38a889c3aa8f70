package webhook

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// controllingVPA returns the VPA that changes a new pod, or nil. It reads from caches; target.Patience bounds the wait for a scale
// that is not cached.
func (h *Handler) controllingVPA(ctx context.Context, req admission.Request, rules *compile.Rulebook, pod *corev1.Pod) (*matcher.VPA, error) {
	top, err := h.Resolver.Top(ctx, pod, func(chain []target.Key) bool { return h.anyTarget(ctx, pod.Namespace, chain) })
	if err != nil || top == nil {
		return nil, err
	}
	var list vpav1.VerticalPodAutoscalerList
	if err := h.Client.List(ctx, &list, withTarget(pod.Namespace, targetKey(top.Kind, top.Name))...); err != nil {
		return nil, fmt.Errorf("listing the VerticalPodAutoscalers of %s %s/%s: %w", top.Kind, top.Namespace, top.Name, err)
	}
	candidates := make([]*matcher.VPA, len(list.Items))
	for i := range list.Items {
		candidates[i] = matcher.New(rules, &list.Items[i], h.Log)
		h.reportCandidate(ctx, req, top, pod, candidates[i])
	}
	return matcher.Match(ctx, matcher.Admission, top, candidates, pod, func(v *matcher.VPA, why *target.Unsupported) {
		h.Log.Info("the VPA is left out, because its selector cannot be determined", "namespace", v.Object.Namespace, "vpa", v.Object.Name, "pod", pod.Name, "reason", why.Message)
	}), nil
}

// reportCandidate logs why a VPA with the target of a pod changes no new pods, and records what overlays that are not enforced
// would decide.
func (h *Handler) reportCandidate(ctx context.Context, req admission.Request, top *target.Top, pod *corev1.Pod, v *matcher.VPA) {
	if fault := v.Object.Unreadable(); fault != "" {
		h.Log.Info("VPA skipped: it cannot be decoded completely", "namespace", v.Object.Namespace, "vpa", v.Object.Name, "reason", fault)
		return
	}
	if len(v.Rules.Shadows) > 0 {
		h.auditAdmission(req, v, func() bool {
			mine, _ := top.Selects(ctx, v.Object, pod)
			return mine
		})
	}
	if err := v.Verdict(matcher.Admission).Err; err != nil {
		policy.Report(h.Log.WithValues("namespace", v.Object.Namespace, "vpa", v.Object.Name), "the VPA changes no new pods", err)
	}
}

// anyTarget reports whether a VPA of the namespace may control a pod with this chain of owners: one targets an owner, or targets
// a custom kind, which might own the last of them. When the VPAs cannot be listed, it reports true.
func (h *Handler) anyTarget(ctx context.Context, namespace string, chain []target.Key) bool {
	some := func(key string) bool {
		var list vpav1.VerticalPodAutoscalerList
		return h.Client.List(ctx, &list, withTarget(namespace, key)...) != nil || len(list.Items) > 0
	}
	return some(customTargets) || slices.ContainsFunc(chain, func(k target.Key) bool { return some(targetKey(k.Kind, k.Name)) })
}
