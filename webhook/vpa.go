package webhook

import (
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

// vpa answers whether a VerticalPodAutoscaler is valid, and gives it its defaults.
func (h *Handler) vpa(ctx context.Context, req admission.Request, log logr.Logger) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	object, old := withoutStatus(req.Object.Raw), withoutStatus(req.OldObject.Raw)
	meta, before := vpareview.Metadata(object), vpareview.Metadata(old)
	if meta.Namespace == "" {
		meta.Namespace = req.Namespace
	}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: meta}
	review := vpareview.Request{Object: object, OldObject: old, Namespace: req.Namespace, Beside: h.beside(ctx, req.Namespace, object, log)}
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
		return denied(req, vpav1.GroupVersion.WithKind("VerticalPodAutoscaler").GroupKind(), answer.Causes).WithWarnings(warnings...)
	}
	vpasTotal.WithLabelValues("true").Inc()
	return admission.Patched("", answer.Patch...).WithWarnings(warnings...)
}

// withoutStatus is an object without its status: API servers drop what a create or an update says of it, but only after they
// asked, so whatever stands there is nobody's to judge. What is no object is left as it is.
func withoutStatus(object []byte) []byte {
	var parts map[string]json.RawMessage
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

// texts are causes in a line each.
func texts(causes []vpareview.Cause) []string {
	var out []string
	for _, c := range causes[:min(len(causes), maxTold)] {
		out = append(out, c.String())
	}
	if more := len(causes) - maxTold; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// maxTold is how many causes or warnings are told of one object: nobody reads more, and an answer has to have some size.
const maxTold = 100

// denied is a standard Invalid status with one cause a violation. The kind is named with its group, as API servers do.
func denied(req admission.Request, kind schema.GroupKind, causes []vpareview.Cause) admission.Response {
	var told []metav1.StatusCause
	for _, c := range causes[:min(len(causes), maxTold)] {
		told = append(told, metav1.StatusCause{Type: c.Reason, Field: c.Field, Message: fmt.Sprintf("%s (rule %s)", c.Message, c.Rule)})
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: false,
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Message: fmt.Sprintf("%s %q is invalid: %s", kind.String(), req.Name, strings.Join(texts(causes), "; ")),
			Details: &metav1.StatusDetails{Group: kind.Group, Kind: kind.Kind, Name: req.Name, Causes: told},
		},
	}}
}
