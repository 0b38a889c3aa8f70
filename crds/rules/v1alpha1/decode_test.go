package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other CRDs may admit objects that do not fit the type; one of them made listing fail.
func TestOneUnreadableRuleOverlayDoesNotSpoilAList(t *testing.T) {
	const odd = `{"metadata":{"name":"odd","uid":"u","generation":2},"spec":{"priority":"high"},"status":{"observedGeneration":1}}`
	var list RuleOverlayList
	require.NoError(t, json.Unmarshal([]byte(`{"items":[`+odd+`,{"metadata":{"name":"fine"},"spec":{"priority":3}}]}`), &list))
	require.Equal(t, "odd u", list.Items[0].Name+" "+string(list.Items[0].UID))
	require.EqualValues(t, []int64{2, 1}, []int64{list.Items[0].Generation, list.Items[0].Status.ObservedGeneration})
	require.Contains(t, list.Items[0].Unreadable, "priority")
	require.Empty(t, list.Items[1].Unreadable)
	require.EqualValues(t, 3, list.Items[1].Spec.Priority)
	require.Error(t, json.Unmarshal([]byte(`{"metadata":{"name":7},"spec":{}}`), &list.Items[0]), "nobody could tell which one it is")

	_, _, err := Decode([]byte(odd))
	require.ErrorContains(t, err, "priority", "whoever judges an object still sees its faults")
	_, unknown, err := Decode([]byte(`{"metadata":{"name":"a"},"spec":{"surprise":1}}`))
	require.NoError(t, err)
	require.Len(t, unknown, 1)
}
