package webhook

import (
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// operation is a jsonpatch.Operation without its method MarshalJSON, which encodes and parses each operation once more.
type operation struct {
	Operation string `json:"op"`
	Path      string `json:"path"`
	Value     any    `json:"value,omitempty"`
}

// encode writes the AdmissionReview that answers the request with a UID. Only a refusal or a message gets a status.
func encode(uid types.UID, resp *admission.Response) ([]byte, error) {
	answer := &admissionv1.AdmissionResponse{UID: uid, Allowed: resp.Allowed, Warnings: resp.Warnings, AuditAnnotations: resp.AuditAnnotations}
	if resp.Result != nil && (!resp.Allowed || resp.Result.Message != "") {
		answer.Result = resp.Result
	}
	if resp.Allowed && len(resp.Patches) > 0 {
		operations := make([]*operation, len(resp.Patches))
		for i := range resp.Patches {
			o := (*operation)(&resp.Patches[i])
			if o.Value == nil && o.Operation != "remove" {
				o.Value = json.RawMessage("null")
			}
			operations[i] = o
		}
		patch, err := json.Marshal(operations)
		if err != nil {
			return nil, fmt.Errorf("writing the patch: %w", err)
		}
		answer.Patch, answer.PatchType = patch, ptr.To(admissionv1.PatchTypeJSONPatch)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: answer})
	if err != nil {
		return nil, fmt.Errorf("writing the answer: %w", err)
	}
	return body, nil
}
