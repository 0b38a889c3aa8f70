package webhook

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-logr/logr"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	Plan     func() *engine.Plan // the rules in force
	Log      logr.Logger
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
		ops, err := h.pod(ctx, req, log)
		if err != nil {
			log.Error(err, "the pod is admitted unchanged")
			ops = nil
		}
		podsTotal.WithLabelValues(fmt.Sprint(len(ops) > 0)).Inc()
		return admission.Patched("", ops...)
	case req.Resource.Group == vpav1.GroupVersion.Group && req.Resource.Resource == "verticalpodautoscalers":
		return h.vpa(req)
	}
	return admission.Allowed("")
}

// pod returns the operations that give a pod its recommended resources.
func (h *Handler) pod(ctx context.Context, req admission.Request, log logr.Logger) ([]jsonpatch.Operation, error) {
	if req.Operation != admissionv1.Create {
		return nil, nil
	}
	var pod corev1.Pod
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	if pod.Namespace == "" {
		pod.Namespace = req.Namespace
	}
	if pod.Name == "" {
		pod.Name = pod.GenerateName + "%"
	}
	plan := h.Plan()
	v, err := h.controllingVPA(ctx, plan, &pod)
	if err != nil || v == nil {
		return nil, err
	}
	changes, failed := facts.ResourcesForPod(plan, &pod, v, nil)
	policy.Report(log.WithValues("vpa", v.Name), "its values are left as they were", failed...)
	ops := podpatch.Admission(&pod, v.Name, changes)
	log.Info("pod patched", "pod", pod.Name, "vpa", v.Name, "updates", podpatch.Updates(v.Name, changes))
	return ops, nil
}

func (h *Handler) controllingVPA(ctx context.Context, plan *engine.Plan, pod *corev1.Pod) (*vpav1.VerticalPodAutoscaler, error) {
	var list vpav1.VerticalPodAutoscalerList
	if err := h.Client.List(ctx, &list, client.InNamespace(pod.Namespace)); err != nil {
		return nil, fmt.Errorf("listing VerticalPodAutoscalers: %w", err)
	}
	var candidates []*vpav1.VerticalPodAutoscaler
	for i := range list.Items {
		v := &list.Items[i]
		verdict := plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), nil)
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

// vpa answers whether a VerticalPodAutoscaler is valid.
func (h *Handler) vpa(req admission.Request) admission.Response {
	var object, old map[string]any
	if err := json.Unmarshal(req.Object.Raw, &object); err != nil {
		return denied(req, []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: fmt.Sprintf("the object cannot be read: %v", err)}})
	}
	if len(req.OldObject.Raw) > 0 {
		if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
			return denied(req, []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: fmt.Sprintf("the old object cannot be read: %v", err)}})
		}
	}
	// Quantities and types: the structure must fit, as it must for the controllers that read it.
	if err := json.Unmarshal(req.Object.Raw, &vpav1.VerticalPodAutoscaler{}); err != nil {
		return denied(req, []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: err.Error()}})
	}
	var causes []metav1.StatusCause
	var warnings []string
	for _, v := range h.Plan().Validate(facts.VPAValidate, object, old, nil) {
		if v.Warning {
			warnings = append(warnings, fmt.Sprintf("%s: %s (rule %s)", v.Path, v.Message, v.Rule))
			continue
		}
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseType(v.Reason), Field: v.Path, Message: fmt.Sprintf("%s (rule %s)", v.Message, v.Rule),
		})
	}
	if len(causes) > 0 {
		return denied(req, causes).WithWarnings(warnings...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// denied is a standard Invalid status with one cause a violation.
func denied(req admission.Request, causes []metav1.StatusCause) admission.Response {
	text := ""
	for i, c := range causes {
		if i > 0 {
			text += "; "
		}
		if c.Field != "" {
			text += c.Field + ": "
		}
		text += c.Message
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: false,
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Message: fmt.Sprintf("VerticalPodAutoscaler %q is invalid: %s", req.Name, text),
			Details: &metav1.StatusDetails{Group: vpav1.GroupVersion.Group, Kind: "VerticalPodAutoscaler", Name: req.Name, Causes: causes},
		},
	}}
}
