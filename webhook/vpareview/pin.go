package vpareview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/policy"
)

// PinRule names the check that a VPA only pins a loaded pipeline. It is no rule in a file, because it depends on which files there
// are.
const PinRule = "pipeline"

// UnknownPin refuses a VPA that pins a pipeline which is not loaded, where err is the error of policy.For. A VPA that had the same
// pin before stays editable.
func UnknownPin(err error, annotations map[string]string, old []byte) []Cause {
	before, _ := metadata(old) // there may be none
	if err == nil || annotations[policy.AnnotationPipeline] == before.Annotations[policy.AnnotationPipeline] {
		return nil
	}
	return []Cause{{
		Rule: PinRule, Reason: metav1.CauseTypeFieldValueNotSupported, Field: "metadata.annotations[" + policy.AnnotationPipeline + "]", Message: err.Error(),
	}}
}
