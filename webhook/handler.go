package webhook

import (
	"context"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

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

// Handle answers a review. Panics are the Server's.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	log := h.Log.WithValues("uid", req.UID, "namespace", req.Namespace, "name", req.Name)
	switch {
	case req.Resource.Group == "" && req.Resource.Resource == "pods":
		return h.pod(ctx, req, log)
	case req.Resource.Group == vpav1.GroupVersion.Group && req.Resource.Resource == "verticalpodautoscalers":
		return h.vpa(ctx, req, log)
	}
	return admission.Allowed("")
}
