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

	"github.com/celvpa/celvpa/crds/quantity"
)

// reviewType is the only version of reviews that the registration asks for.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// incoming has the fields of an AdmissionReview that are read. userInfo and options are not: no rule depends on them.
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
	Object      span                         `json:"object"`
	OldObject   span                         `json:"oldObject"`
	DryRun      *bool                        `json:"dryRun"`
}

// span is where a value stands in the body, undecoded; zero = nowhere, or null.
type span struct{ from, to int64 }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *span) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err == nil && value.Kind() != 'n' {
		s.to = d.InputOffset()
		s.from = s.to - int64(len(value))
	}
	return err
}

func (s span) in(body []byte) (out runtime.RawExtension) {
	if s.to > 0 {
		out.Raw = body[s.from:s.to:s.to]
	}
	return out
}

// decode reads an AdmissionReview of admission.k8s.io/v1. The objects in it are parts of the body, which must stay as it is.
// Even with an error, the result has the UID if it stands before the fault.
func decode(body []byte) (admission.Request, error) {
	var in incoming
	err := json.Unmarshal(body, &in, quantity.Lenient)
	out, fault := in.request(body)
	if err != nil {
		return out, fmt.Errorf("the request is not an AdmissionReview: %w", err)
	}
	return out, fault
}

// request converts what was read. The error says what is missing or of the wrong version.
func (in *incoming) request(body []byte) (admission.Request, error) {
	r := in.Request
	if r == nil {
		r = &incomingRequest{}
	}
	out := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: r.UID, Kind: r.Kind, Resource: r.Resource, SubResource: r.SubResource, RequestKind: r.RequestKind, RequestResource: r.Requested,
		Name: r.Name, Namespace: r.Namespace, Operation: r.Operation, Object: r.Object.in(body), OldObject: r.OldObject.in(body), DryRun: r.DryRun,
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
