package v1

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/crds/quantity"
)

// FuzzDecodeReadsWhatKubernetesReads: what the faster decoder accepts, Kubernetes' decoder reads in the same way.
func FuzzDecodeReadsWhatKubernetesReads(f *testing.F) {
	const policy = `{"updatePolicy":{"updateMode":"Off","minReplicas":2},"resourcePolicy":{"containerPolicies":[{"containerName":"*","minAllowed":{"cpu":"50m","memory":1024},
		"requestToLimitRatio":{"cpu":{"type":"Factor","factor":1.50}},"memoryAggregationInterval":"1h"}]}}`
	for _, seed := range []string{
		stored(policy, goodStatus),
		stored(`{"targetRef":null,"resourcePolicy":{"containerPolicies":[null]}}`, `null`),
		stored(`{"targetRef":{"kind":"a","kind":"b"},"targetRef":{"name":"c"}}`, goodStatus),
		stored(`{"resourcePolicy":{"containerPolicies":[{"minAllowed":{"cpu":null,"cpu":"1","memory":" 1 "}}]}}`, goodStatus),
		stored(`{"updatePolicy":{"minReplicas":2.0}}`, `{"conditions":[{"lastTransitionTime":null}]}`),
		`{"metadata":{"name":"v","creationTimestamp":"2026-01-02T03:04:05Z","managedFields":[{"fieldsV1":{"f:spec":{}}}]},"Spec":{}}`,
		`{"metadata":{"name":"v","name":null}}`,
		"{\"metadata\":{\"name\":\"\xff\"}}",
		`[]`, `null`, `{`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var fast fitting
		if fast.readFast(data) != nil {
			return // Kubernetes' decoder is asked
		}
		var slow fitting
		require.NoError(t, quantity.Unmarshal(data, &slow))
		require.Equal(t, slow, fast)
	})
}
