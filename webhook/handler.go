package webhook

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Handler answers admission reviews for pods and VerticalPodAutoscalers. It implements admission.Handler.
type Handler struct {
	Client   client.Client // reads from a cache
	Resolver *target.Resolver
	Rules    func() *engine.Rulebook // the rules in force
	Shadows  *policy.Shadows
	Log      logr.Logger
	// HPAs tells that Client knows HorizontalPodAutoscalers.
	HPAs bool
}

// Handle answers a review. A panic lets the object through as it came.
func (h *Handler) Handle(ctx context.Context, req admission.Request) (resp admission.Response) {
	log := h.Log.WithValues("uid", req.UID, "namespace", req.Namespace, "name", req.Name)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "the object is admitted unchanged; please report this", "stack", string(debug.Stack()))
			resp = admission.Allowed("")
		}
	}()
	switch {
	case req.Resource.Group == "" && req.Resource.Resource == "pods":
		return h.pod(ctx, req, log)
	case req.Resource.Group == vpav1.GroupVersion.Group && req.Resource.Resource == "verticalpodautoscalers":
		return h.vpa(ctx, req, log)
	}
	return admission.Allowed("")
}

func (h *Handler) controllingVPA(ctx context.Context, req admission.Request, rules *engine.Rulebook, pod *corev1.Pod) (*vpav1.VerticalPodAutoscaler, error) {
	var list vpav1.VerticalPodAutoscalerList
	if err := h.Client.List(ctx, &list, client.InNamespace(pod.Namespace)); err != nil {
		return nil, fmt.Errorf("listing VerticalPodAutoscalers: %w", err)
	}
	var candidates []*vpav1.VerticalPodAutoscaler
	for i := range list.Items {
		v := &list.Items[i]
		if fault := v.Unreadable(); fault != "" {
			h.Log.Info("the VPA is left out, because not all of it can be read", "namespace", v.Namespace, "vpa", v.Name, "reason", fault)
			continue
		}
		chosen := policy.For(rules, v)
		verdict := chosen.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), nil)
		h.auditAdmission(req, v, chosen.Shadows, verdict, func() bool {
			one, err := h.Resolver.ControllingVPA(ctx, pod, []*vpav1.VerticalPodAutoscaler{v})
			return err == nil && one != nil
		})
		policy.Report(h.Log.WithValues("namespace", v.Namespace, "vpa", v.Name), "the VPA changes no new pods", verdict.Err)
		if verdict.Do == facts.DoApply {
			candidates = append(candidates, v)
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	return h.Resolver.ControllingVPA(ctx, pod, candidates)
}
