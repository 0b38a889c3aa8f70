package recommender

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Regression: an API server whose CRD lacks a field drops it, so that the status never became what it
// should be, and was written again in each cycle.
func TestAStatusThatTheAPIServerPrunesIsNotWrittenAgainAndAgain(t *testing.T) {
	c := newCluster(t, append(workload("a", "app"), workload("b", "app")...)...)
	c.pruned = func(o client.Object, p client.Patch) client.Patch {
		if o.GetName() != "a" {
			return p
		}
		data, err := p.Data(o)
		require.NoError(t, err)
		var operations []struct {
			Op    string                             `json:"op"`
			Path  string                             `json:"path"`
			Value *vpav1.VerticalPodAutoscalerStatus `json:"value"`
		}
		require.NoError(t, json.Unmarshal(data, &operations))
		require.Len(t, operations, 1)
		operations[0].Value.Recommendation = nil
		if equality.Semantic.DeepEqual(*operations[0].Value, c.vpa("a").Status) {
			return nil // API servers do not store what changes nothing, and watches do not see it
		}
		data, err = json.Marshal(operations)
		require.NoError(t, err)
		return client.RawPatch(types.JSONPatchType, data)
	}
	c.cycle("a app", "b app")
	for range 3 {
		c.cycle()
	}
	require.ElementsMatch(t, []string{"a", "a", "b"}, c.statuses, "the second one of a shows that the first was pruned")
	require.Nil(t, c.vpa("a").Status.Recommendation)

	c.pruned = nil // the CRD has the field now
	edited := c.vpa("a")
	edited.Labels = map[string]string{"tier": "gold"}
	require.NoError(t, c.api.Update(t.Context(), edited))
	c.cycle()
	require.NotNil(t, c.vpa("a").Status.Recommendation)
}

// TestAStatusSubresourceThatTheCRDLacksIsReported: API servers answer as if the VPA were deleted, which is not an error. CRDs of VPA
// before 1.0 have none, and the recommender wrote nothing and said nothing.
func TestAStatusSubresourceThatTheCRDLacksIsReported(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.fault = func(verb string, _ client.Object) error {
		if verb == "status" {
			return apierrors.NewNotFound(schema.GroupResource{Group: "autoscaling.k8s.io", Resource: "verticalpodautoscalers"}, "a")
		}
		return nil
	}
	c.cycle("a app")
	require.Zero(t, c.count("writing the status"), "it may have been deleted")
	for range 3 {
		c.cycle("a app")
	}
	require.Equal(t, 1, c.count("its CRD may lack the status subresource"))

	c.fault = nil // the CRD is installed
	c.cycle("a app")
	require.Equal(t, []string{"a"}, c.statuses)
	require.Equal(t, 1, c.count("recovered"))
}
