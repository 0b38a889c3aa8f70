package quantity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Regression: mistakes in manifests were reported in terms of Go: "json: cannot unmarshal string into Go struct field
// DeploymentSpec.spec.replicas of type int32", and without the index in lists.
func TestValuesOfAnotherTypeAreNamedInTheWordsOfYAML(t *testing.T) {
	pod := func() any { return &corev1.Pod{} }
	for name, tt := range map[string]struct {
		data string
		into func() any
		want string
	}{
		"a number in quotes":       {`{"spec":{"priority":"3"}}`, pod, `spec.priority is the string "3", and must be a whole number of at most 2147483647; leave out the quotes`},
		"a word for a number":      {`{"spec":{"priority":"high"}}`, pod, `spec.priority is the string "high", and must be a whole number of at most 2147483647`},
		"a fraction":               {`{"spec":{"priority":1.5}}`, pod, `spec.priority is the number 1.5, and must be a whole number of at most 2147483647`},
		"a number that is too big": {`{"spec":{"terminationGracePeriodSeconds":99999999999999999999}}`, pod, `spec.terminationGracePeriodSeconds is the number 99999999999999999999, and must be a whole number of at most 9223372036854775807`},
		"a bool in quotes":         {`{"spec":{"hostNetwork":"true"}}`, pod, `spec.hostNetwork is the string "true", and must be true or false; leave out the quotes`},
		"a name without quotes":    {`{"spec":{"containers":[{"name":"a"},{"name":7}]}}`, pod, `spec.containers[1].name is the number 7, and must be a string; put quotes around it: YAML takes words such as n, no and off for true or false, and digits for numbers`},
		"a mapping for a list":     {`{"spec":{"containers":{"name":"a"}}}`, pod, `spec.containers is a mapping, and must be a list`},
		"a list for a mapping":     {`{"metadata":["a"]}`, pod, `metadata is a list, and must be a mapping`},
		"a list for a quantity":    {`{"spec":{"containers":[{"resources":{"limits":{"cpu":[1]}}}]}}`, pod, `spec.containers[0].resources.limits.cpu is a list, and must be a quantity such as 500m, 2 or 1Gi`},
		"a time":                   {`{"metadata":{"creationTimestamp":"yesterday"}}`, pod, `metadata.creationTimestamp is the string "yesterday", and must be a time such as 2026-01-31T12:00:00Z`},
		"a number or percentage":   {`{"spec":{"minAvailable":{"a":1}}}`, func() any { return &policyv1.PodDisruptionBudget{} }, `spec.minAvailable is a mapping, and must be a whole number or a percentage such as 25%`},
		"another kind":             {`{"spec":{"scaleTargetRef":"shop"}}`, func() any { return &autoscalingv2.HorizontalPodAutoscaler{} }, `spec.scaleTargetRef is the string "shop", and must be a mapping`},
		"the whole":                {`[]`, pod, `it is a list, and must be a mapping`},
		"a long text":              {`{"spec":{"containers":"` + strings.Repeat("é", 100) + `"}}`, pod, `spec.containers is the string "` + strings.Repeat("é", 30) + `...", and must be a list`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, Unmarshal([]byte(tt.data), tt.into()))
			require.EqualError(t, MismatchIn([]byte(tt.data), tt.into()), tt.want)
		})
	}
	for name, data := range map[string]string{"nothing": `{}`, "no JSON": `{`, "what another error names": `{"spec":{"containers":[{"resources":{"limits":{"cpu":"1 core"}}}]}}`} {
		require.NoError(t, MismatchIn([]byte(data), pod()), name)
	}
}
