package webhook

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestAnswersAreWrittenAsTheLibraryWritesThem(t *testing.T) {
	for name, patch := range map[string][]jsonpatch.Operation{
		"no patch":     nil,
		"plain":        {jsonpatch.NewOperation("add", "/spec/containers/0/resources", map[string]any{}), jsonpatch.NewOperation("add", "/a/b", "300m")},
		"odd texts":    {jsonpatch.NewOperation("add", "/metadata/annotations/a~1b", "\"\\<&>\n\u00e9\u2028\x7f\xff")},
		"other values": {jsonpatch.NewOperation("replace", "/a", 7), jsonpatch.NewOperation("add", "/b", nil), jsonpatch.NewOperation("add", "/c", []string{"x"})},
		"removal":      {jsonpatch.NewOperation("remove", "/a", nil)},
	} {
		for _, uid := range []types.UID{"7", "a\"b", "\u00e9"} {
			resp := admission.Patched("", patch...)
			body, err := encode(uid, &resp)
			require.NoError(t, err, name)

			want := &admissionv1.AdmissionResponse{UID: uid, Allowed: true}
			if len(patch) > 0 {
				want.PatchType = &jsonPatch
				want.Patch, err = json.Marshal(patch)
				require.NoError(t, err, name)
			}
			if len(patch) == 0 {
				whole, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: want})
				require.NoError(t, err, name)
				require.Equal(t, string(whole), string(body), name)
				continue
			}
			var got admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(body, &got), name)
			require.JSONEq(t, string(want.Patch), string(got.Response.Patch), name)
			want.Patch = got.Response.Patch
			whole, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: want})
			require.NoError(t, err, name)
			require.Equal(t, string(whole), string(body), name)
		}
	}
	resp := admission.Patched("", jsonpatch.NewOperation("add", "/a", func() {}))
	_, err := encode("7", &resp)
	require.ErrorContains(t, err, "/a")
}
