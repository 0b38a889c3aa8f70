package webhook

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// Handler answers admission reviews for pods and VerticalPodAutoscalers. It implements admission.Handler.
type Handler struct {
	Client   client.Client // reads from a cache
	Resolver *target.Resolver
	Limits   *limitranges.Cache
	Objects  facts.Objects            // nil = nothing is known
	Rules    func() *compile.Rulebook // returns the rules in force
	Shadows  *policy.Shadows
	Log      logr.Logger
	Clock    clock.PassiveClock // of decisions
	// Decisions keeps the reviews of pods that a VPA controls; nil = none.
	Decisions *answers.Log
	// HPAs reports whether Client can list HorizontalPodAutoscalers.
	HPAs bool
}

// Handle answers a review. The Server recovers its panics.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	about := &subject{log: h.Log, values: append(make([]any, 0, 12), "uid", string(req.UID), "namespace", req.Namespace)}
	if req.Name != "" { // most new pods have none yet
		about.add("name", req.Name)
	}
	switch {
	case req.Resource.Group == "" && req.Resource.Resource == "pods":
		return h.pod(ctx, req, about)
	case req.Resource.Group == vpav1.GroupVersion.Group && req.Resource.Resource == "verticalpodautoscalers":
		if isProbe(req) {
			return probeAnswer
		}
		return h.vpa(ctx, req, about.logger())
	}
	return admission.Allowed("")
}

// subject collects the key/value pairs that identify a review in the log. Most reviews log nothing, so the logger is made on
// demand.
type subject struct {
	log    logr.Logger
	values []any // alternating keys and values
}

func (s *subject) add(key string, value any) { s.values = append(s.values, key, value) }

func (s *subject) logger() logr.Logger { return s.log.WithValues(s.values...) }
