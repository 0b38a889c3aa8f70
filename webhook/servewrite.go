package webhook

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var jsonPatch = admissionv1.PatchTypeJSONPatch

// encode writes the AdmissionReview that answers the one with a UID. It is given a status only where that says something.
func encode(uid types.UID, resp *admission.Response) ([]byte, error) {
	patch := resp.Patch
	switch {
	case !resp.Allowed:
		patch = nil
	case len(patch) == 0 && len(resp.Patches) > 0:
		var err error
		if patch, err = encodePatch(resp.Patches); err != nil {
			return nil, fmt.Errorf("writing the patch: %w", err)
		}
	}
	told := resp.Result != nil && (!resp.Allowed || resp.Result.Message != "")
	if resp.Allowed && !told && len(resp.Warnings) == 0 && len(resp.AuditAnnotations) == 0 {
		return allowed(uid, patch), nil
	}
	answer := &admissionv1.AdmissionResponse{UID: uid, Allowed: resp.Allowed, Warnings: resp.Warnings, AuditAnnotations: resp.AuditAnnotations}
	if told {
		answer.Result = resp.Result
	}
	if len(patch) > 0 {
		answer.Patch, answer.PatchType = patch, &jsonPatch
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: answer})
	if err != nil {
		return nil, fmt.Errorf("writing the answer: %w", err)
	}
	return body, nil
}

// allowed writes what nearly all answers are, without the detour by which the library writes it.
func allowed(uid types.UID, patch []byte) []byte {
	out := make([]byte, 0, 256+base64.StdEncoding.EncodedLen(len(patch)))
	out = append(out, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":`...)
	out = append(appendText(out, string(uid)), `,"allowed":true`...)
	if len(patch) > 0 {
		out = append(out, `,"patch":"`...)
		out = append(base64.StdEncoding.AppendEncode(out, patch), `","patchType":"JSONPatch"`...)
	}
	return append(out, "}}"...)
}

// encodePatch writes operations likewise. What removes something has no value.
func encodePatch(patch []jsonpatch.Operation) ([]byte, error) {
	out := append(make([]byte, 0, 100*len(patch)+256), '[')
	for i := range patch {
		o := &patch[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = appendText(append(out, `{"op":`...), o.Operation)
		out = appendText(append(out, `,"path":`...), o.Path)
		if o.Value != nil || o.Operation != "remove" {
			out = append(out, `,"value":`...)
			if text, ok := o.Value.(string); ok {
				out = appendText(out, text)
			} else {
				value, err := json.Marshal(o.Value)
				if err != nil {
					return nil, fmt.Errorf("the value of %s: %w", o.Path, err)
				}
				out = append(out, value...)
			}
		}
		out = append(out, '}')
	}
	return append(out, ']'), nil
}

// appendText writes a text as JSON. Most need nothing but quotes.
func appendText(out []byte, text string) []byte {
	for i := range len(text) {
		switch b := text[i]; {
		case b < ' ', b >= 0x7f, b == '"', b == '\\', b == '<', b == '>', b == '&':
			quoted, _ := json.Marshal(text) // texts can always be written
			return append(out, quoted...)
		}
	}
	return append(append(append(out, '"'), text...), '"')
}
