package webhook

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// vpa answers whether a VerticalPodAutoscaler is valid, and gives it its defaults.
func (h *Handler) vpa(ctx context.Context, req admission.Request, log logr.Logger) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	// Metadata that cannot be read chooses nothing; the review says what is wrong with it.
	var meta, before metav1.PartialObjectMetadata
	_ = json.Unmarshal(req.Object.Raw, &meta)
	_ = json.Unmarshal(req.OldObject.Raw, &before)
	if meta.Namespace == "" {
		meta.Namespace = req.Namespace
	}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: meta.ObjectMeta}
	review := vpareview.Request{Object: req.Object.Raw, OldObject: req.OldObject.Raw, Namespace: req.Namespace, Beside: h.beside(ctx, req.Namespace, log)}
	chosen := policy.For(h.Rules(), v)
	answer := vpareview.Review(chosen.Plan, review)
	policy.Report(log, "the object gets no default from it", answer.Failed...)
	warnings := append(texts(answer.Warnings), h.auditVPA(req, v, chosen.Shadows, review, answer)...)
	answer.Causes = append(vpareview.UnknownPin(chosen.Err, meta.Annotations, before.Annotations), answer.Causes...)
	if !answer.Allowed() {
		vpasTotal.WithLabelValues("false").Inc()
		for _, c := range answer.Causes {
			refusalsTotal.WithLabelValues(c.Rule).Inc()
		}
		return denied(req, answer.Causes).WithWarnings(warnings...)
	}
	vpasTotal.WithLabelValues("true").Inc()
	return admission.Patched("", answer.Patch...).WithWarnings(warnings...)
}

// beside lists what stands beside a VPA. Without it the VPA is judged all the same: it is only for warnings.
func (h *Handler) beside(ctx context.Context, namespace string, log logr.Logger) (out vpareview.Beside) {
	if h.Client == nil {
		return out
	}
	// What is listed is only read, so it need not be copied out of the cache.
	options := []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}
	var vpas vpav1.VerticalPodAutoscalerList
	if err := h.Client.List(ctx, &vpas, options...); err != nil {
		log.Error(err, "other VerticalPodAutoscalers of the same target are not warned about")
	}
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if h.HPAs {
		if err := h.Client.List(ctx, &hpas, options...); err != nil {
			log.Error(err, "HorizontalPodAutoscalers of the same target are not warned about")
		}
	}
	return vpareview.Beside{VPAs: vpas.Items, HPAs: hpas.Items}
}

// texts are causes in a line each.
func texts(causes []vpareview.Cause) []string {
	var out []string
	for _, c := range causes {
		out = append(out, c.String())
	}
	return out
}

// denied is a standard Invalid status with one cause a violation.
func denied(req admission.Request, causes []vpareview.Cause) admission.Response {
	text := ""
	var told []metav1.StatusCause
	for i, c := range causes {
		if i > 0 {
			text += "; "
		}
		text += c.String()
		told = append(told, metav1.StatusCause{Type: c.Reason, Field: c.Field, Message: fmt.Sprintf("%s (rule %s)", c.Message, c.Rule)})
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: false,
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Message: fmt.Sprintf("VerticalPodAutoscaler %q is invalid: %s", req.Name, text),
			Details: &metav1.StatusDetails{Group: vpav1.GroupVersion.Group, Kind: "VerticalPodAutoscaler", Name: req.Name, Causes: told},
		},
	}}
}
