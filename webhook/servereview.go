package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/crds/quantity"
)

// reviewType is the only version of reviews that the registration asks for.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// decode reads an AdmissionReview of admission.k8s.io/v1. Even with an error, the result has the UID if it stands before the fault.
func decode(body []byte) (admission.Request, error) {
	var in admissionv1.AdmissionReview
	err := jsonv2.Unmarshal(body, &in, quantity.Lenient)
	out := admission.Request{AdmissionRequest: ptr.Deref(in.Request, admissionv1.AdmissionRequest{})}
	switch {
	case err != nil:
		return out, fmt.Errorf("the request is no AdmissionReview: %w", err)
	case in.TypeMeta != reviewType:
		return out, fmt.Errorf("the request is a %q of %q, not an AdmissionReview of %s", in.Kind, in.APIVersion, reviewType.APIVersion)
	case in.Request == nil:
		return out, errors.New("the AdmissionReview has no request")
	case out.UID == "":
		return out, errors.New("the AdmissionReview has a request without a uid")
	case out.RequestKind == nil:
		return out, errors.New("the AdmissionReview has a request without a requestKind")
	}
	return out, nil
}

// encode makes the answer to the request with a UID. Only a refusal or a message gets a status.
func encode(uid types.UID, resp *admission.Response) ([]byte, error) {
	review := &admissionv1.AdmissionResponse{UID: uid, Allowed: resp.Allowed, Warnings: resp.Warnings, AuditAnnotations: resp.AuditAnnotations}
	if resp.Result != nil && (!resp.Allowed || resp.Result.Message != "") {
		review.Result = resp.Result
	}
	if resp.Allowed && len(resp.Patches) > 0 {
		patch, err := json.Marshal(resp.Patches)
		if err != nil {
			return nil, fmt.Errorf("writing the patch: %w", err)
		}
		review.Patch, review.PatchType = patch, ptr.To(admissionv1.PatchTypeJSONPatch)
	}
	text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: review})
	if err != nil {
		return nil, fmt.Errorf("writing the answer: %w", err)
	}
	return text, nil
}
