package webhook

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json" // whole numbers stay integers, as rules expect
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podpatch"
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

// Handle never fails a pod: whatever goes wrong, the pod is admitted as it came and the reason is logged.
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
		ops, warnings, err := h.pod(ctx, req, log)
		if err != nil {
			log.Error(err, "the pod is admitted unchanged")
			ops = nil
		}
		podsTotal.WithLabelValues(fmt.Sprint(len(ops) > 0)).Inc()
		return admission.Patched("", ops...).WithWarnings(warnings...)
	case req.Resource.Group == vpav1.GroupVersion.Group && req.Resource.Resource == "verticalpodautoscalers":
		return h.vpa(ctx, req, log)
	}
	return admission.Allowed("")
}

// pod returns the operations that give a pod its recommended resources, and what to tell who submits it.
func (h *Handler) pod(ctx context.Context, req admission.Request, log logr.Logger) ([]jsonpatch.Operation, []string, error) {
	if req.Operation != admissionv1.Create {
		return nil, nil, nil
	}
	var pod corev1.Pod
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		return nil, nil, fmt.Errorf("reading the pod: %w", err)
	}
	if pod.Namespace == "" {
		pod.Namespace = req.Namespace
	}
	if pod.Name == "" {
		pod.Name = pod.GenerateName + "%"
	}
	rules := h.Rules()
	v, err := h.controllingVPA(ctx, req, rules, &pod)
	if err != nil || v == nil {
		return nil, nil, err
	}
	log = log.WithValues("vpa", v.Name)
	chosen := policy.For(rules, v)
	if chosen.Err != nil {
		log.Error(chosen.Err, "the recommendation is applied by the default pipeline")
	}
	changes, failed := facts.ResourcesForPod(chosen.Plan, &pod, v, nil)
	policy.Report(log, "its values are left as they were", failed...)
	ops := podpatch.Admission(&pod, v.Name, changes)
	log.Info("pod patched", "pod", pod.Name, "updates", podpatch.Updates(v.Name, changes))
	return ops, h.auditPod(req, log, v, &pod, chosen.Shadows, changes), nil
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
