package webhook

import (
	"bytes"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"
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

// decode reads an AdmissionReview of admission.k8s.io/v1. The objects in it stay text, of which pods have only what is read
// of them (wantedPod); nothing of the body is kept. UserInfo and Options are left out. With an error, what says why it makes no
// sense, the result has the UID if one could be read.
func decode(body []byte) (admission.Request, error) {
	if in, ok := quick(body); ok {
		req, err := in.request()
		req.Object.Raw, req.OldObject.Raw = ofPod(req.Resource, req.Object.Raw), bytes.Clone(req.OldObject.Raw)
		return req, err
	}
	return decodeWhole(body)
}

// ofPod copies an object; of a pod only what is read of it.
func ofPod(resource metav1.GroupVersionResource, object []byte) []byte {
	if resource.Group == "" && resource.Resource == "pods" && len(object) > 0 {
		if small, ok := prune(object); ok {
			return small
		}
	}
	return bytes.Clone(object)
}

// decodeWhole is decode without a short cut.
func decodeWhole(body []byte) (admission.Request, error) {
	var in incoming
	err := kjson.UnmarshalCaseSensitivePreserveInts(body, &in)
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
