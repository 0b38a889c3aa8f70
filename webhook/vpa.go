package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// vpa answers the review of a VerticalPodAutoscaler: it refuses an invalid one and sets defaults in a valid one.
func (h *Handler) vpa(ctx context.Context, req admission.Request, log logr.Logger) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	review := vpareview.Read(withoutStatus(req.Object.Raw), withoutStatus(req.OldObject.Raw), req.Namespace)
	v := review.VPA
	review.Beside = h.beside(ctx, req.Namespace, v.Spec.TargetRef, log)
	chosen := policy.For(h.Rules(), v)
	answer := vpareview.Review(chosen.Plan, review)
	policy.Report(log, "the rule sets no default", answer.Failed...)
	warnings := append(texts(answer.Warnings), h.auditVPA(req, v, chosen.Shadows, review, answer)...)
	answer.Causes = append(vpareview.UnknownPin(chosen.Err, v.Annotations, req.OldObject.Raw), answer.Causes...)
	if !answer.Allowed() {
		vpasTotal.WithLabelValues("false").Inc()
		for _, c := range answer.Causes {
			refusalsTotal.WithLabelValues(c.Rule).Inc()
		}
		return denied(req, vpav1.GroupVersion.WithKind("VerticalPodAutoscaler").GroupKind(), answer.Causes).WithWarnings(warnings...)
	}
	vpasTotal.WithLabelValues("true").Inc()
	return admission.Patched("", answer.Patch...).WithWarnings(warnings...)
}

// withoutStatus removes the status from an object: API servers ignore it in a create or an update, but only after the webhooks. It
// returns anything but a JSON object unchanged.
func withoutStatus(object []byte) []byte {
	var parts map[string]json.RawMessage
	if !bytes.Contains(object, []byte(`"status"`)) {
		return object // as most new objects
	}
	if json.Unmarshal(object, &parts) != nil || parts["status"] == nil {
		return object
	}
	delete(parts, "status")
	small, err := json.Marshal(parts)
	if err != nil {
		return object
	}
	return small
}

// texts returns one line for each cause, and a last line for those beyond maxCauses.
func texts(causes []vpareview.Cause) []string {
	var out []string
	for _, c := range causes[:min(len(causes), maxCauses)] {
		out = append(out, c.String())
	}
	if more := len(causes) - maxCauses; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// maxCauses bounds the causes and warnings in an answer.
const maxCauses = 100

// denied answers with a standard Invalid status, with one cause for each violation. As in messages of API servers, the kind has its
// group.
func denied(req admission.Request, kind schema.GroupKind, causes []vpareview.Cause) admission.Response {
	var listed []metav1.StatusCause
	for _, c := range causes[:min(len(causes), maxCauses)] {
		listed = append(listed, metav1.StatusCause{Type: c.Reason, Field: c.Field, Message: fmt.Sprintf("%s (rule %s)", c.Message, c.Rule)})
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: false,
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Message: fmt.Sprintf("%s %q is invalid: %s", kind.String(), req.Name, strings.Join(texts(causes), "; ")),
			Details: &metav1.StatusDetails{Group: kind.Group, Kind: kind.Kind, Name: req.Name, Causes: listed},
		},
	}}
}
