package webhook

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// reviewType is the only form of reviews that is asked for and answered.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// incoming is what is read of an AdmissionReview. Who asks, and with what options, decides nothing here.
type incoming struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Request    *incomingRequest `json:"request"`
}

type incomingRequest struct {
	UID         types.UID                    `json:"uid"`
	Kind        metav1.GroupVersionKind      `json:"kind"`
	Resource    metav1.GroupVersionResource  `json:"resource"`
	SubResource string                       `json:"subResource"`
	RequestKind *metav1.GroupVersionKind     `json:"requestKind"`
	Requested   *metav1.GroupVersionResource `json:"requestResource"`
	Name        string                       `json:"name"`
	Namespace   string                       `json:"namespace"`
	Operation   admissionv1.Operation        `json:"operation"`
	Object      runtime.RawExtension         `json:"object"`
	OldObject   runtime.RawExtension         `json:"oldObject"`
	DryRun      *bool                        `json:"dryRun"`
}

// lenient reads JSON as API servers do: of a key that stands twice the last one counts, and texts may hold bytes that are no
// UTF-8. encoding/json/v2 refuses both unless it is asked not to.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decode reads an AdmissionReview of admission.k8s.io/v1. The objects in it are copied as text, so the body may be reused.
// UserInfo and Options are left out. Even with an error, the result has the UID if it was read before the fault.
func decode(body []byte) (admission.Request, error) {
	var in incoming
	err := json.Unmarshal(body, &in, lenient)
	out, fault := in.request()
	if err != nil {
		return out, fmt.Errorf("the request is no AdmissionReview: %w", err)
	}
	return out, fault
}

// request is what was read, and an error what keeps it from making sense.
func (in *incoming) request() (admission.Request, error) {
	r := in.Request
	if r == nil {
		r = &incomingRequest{}
	}
	out := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: r.UID, Kind: r.Kind, Resource: r.Resource, SubResource: r.SubResource, RequestKind: r.RequestKind, RequestResource: r.Requested,
		Name: r.Name, Namespace: r.Namespace, Operation: r.Operation, Object: r.Object, OldObject: r.OldObject, DryRun: r.DryRun,
	}}
	switch {
	case in.APIVersion != reviewType.APIVersion || in.Kind != reviewType.Kind:
		return out, fmt.Errorf("the request is a %q of %q, not an AdmissionReview of %s", in.Kind, in.APIVersion, reviewType.APIVersion)
	case in.Request == nil:
		return out, errors.New("the AdmissionReview has no request")
	case r.UID == "":
		return out, errors.New("the AdmissionReview has a request without a uid")
	case r.RequestKind == nil:
		return out, errors.New("the AdmissionReview has a request without a requestKind")
	}
	return out, nil
}
