package vpareview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/policy"
)

// PinRule stands for the rule by which a VPA cannot pin rules that are not loaded. No rule file can hold it: it is about which
// files there are.
const PinRule = "pipeline"

// UnknownPin refuses a VPA that asks for rules which are not loaded; err is what policy.For says about it. One that asked for
// them before stays editable.
func UnknownPin(err error, annotations, before map[string]string) []Cause {
	if err == nil || annotations[policy.AnnotationPipeline] == before[policy.AnnotationPipeline] {
		return nil
	}
	return []Cause{{
		Rule: PinRule, Reason: metav1.CauseTypeFieldValueNotSupported, Field: "metadata.annotations[" + policy.AnnotationPipeline + "]", Message: err.Error(),
	}}
}
