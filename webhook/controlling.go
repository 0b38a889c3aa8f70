package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// controllingVPA returns the VPA that changes a new pod, or nil. Candidates target the pod's topmost controller, select the pod, and
// may change pods by the rules of pod.admit; the first by vpa.order wins. It reads from caches; target.Patience bounds the wait
// for a scale that is not cached.
func (h *Handler) controllingVPA(ctx context.Context, req admission.Request, rules *compile.Rulebook, pod *corev1.Pod) (*vpav1.VerticalPodAutoscaler, error) {
	top, err := h.Resolver.Top(ctx, pod, func(chain []target.Key) bool { return h.anyTarget(ctx, pod.Namespace, chain) })
	if err != nil || top == nil {
		return nil, err
	}
	var list vpav1.VerticalPodAutoscalerList
	if err := h.Client.List(ctx, &list, withTarget(pod.Namespace, targetKey(top.Kind, top.Name))...); err != nil {
		return nil, fmt.Errorf("listing the VerticalPodAutoscalers of %s %s/%s: %w", top.Kind, top.Namespace, top.Name, err)
	}
	candidates := make([]*vpav1.VerticalPodAutoscaler, len(list.Items))
	for i := range list.Items {
		candidates[i] = &list.Items[i]
	}
	slices.SortFunc(candidates, func(a, b *vpav1.VerticalPodAutoscaler) int { return strings.Compare(a.Name, b.Name) })
	compare := policy.Precedence(rules, h.Log)
	var best *vpav1.VerticalPodAutoscaler
	for _, v := range candidates {
		if h.admits(ctx, req, rules, top, pod, v) && h.selects(ctx, top, v, pod) && (best == nil || compare(v, best) < 0) {
			best = v
		}
	}
	return best, nil
}

// admits reports whether the rules let a VPA change new pods, and records what overlays that are not enforced would decide.
func (h *Handler) admits(ctx context.Context, req admission.Request, rules *compile.Rulebook, top *target.Top, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler) bool {
	if fault := v.Unreadable(); fault != "" {
		h.Log.Info("VPA skipped: it cannot be decoded completely", "namespace", v.Namespace, "vpa", v.Name, "reason", fault)
		return false
	}
	chosen := policy.For(rules, v)
	verdict := chosen.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), nil)
	h.auditAdmission(req, v, chosen.Shadows, verdict, func() bool {
		mine, _ := top.Selects(ctx, v, pod)
		return mine
	})
	if verdict.Err != nil {
		policy.Report(h.Log.WithValues("namespace", v.Namespace, "vpa", v.Name), "the VPA changes no new pods", verdict.Err)
	}
	return verdict.Do == facts.DoApply
}

// selects reports whether a VPA selects a pod of its target. When it cannot tell, it logs why and reports false.
func (h *Handler) selects(ctx context.Context, top *target.Top, v *vpav1.VerticalPodAutoscaler, pod *corev1.Pod) bool {
	mine, why := top.Selects(ctx, v, pod)
	if why != nil {
		h.Log.Info("the VPA is left out, because its selector cannot be determined", "namespace", v.Namespace, "vpa", v.Name, "pod", pod.Name, "reason", why.Message)
	}
	return mine
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
