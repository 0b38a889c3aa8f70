package explain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/answers"
)

// TestHistoryFollowsTheDecisions about the container and the resource, and ends now.
func TestHistoryFollowsTheDecisions(t *testing.T) {
	for _, c := range []answers.Change{{Container: "app", Field: "target.cpu", From: "1", To: "2"}, {Field: "requests.memory", To: "1Gi"}} {
		got, ok := answers.ParseChange(c.String() + " by estimate/bounds/target")
		require.True(t, ok)
		require.Equal(t, c, got)
	}
	_, ok := answers.ParseChange("and 3 more")
	require.False(t, ok)

	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	r := &Report{Now: at(9), Resources: []Amounts{{Container: "app", Resource: "cpu", Target: "300m", LastUsage: "250m", UpperBound: "1"}, {Container: "side", Resource: "cpu"}},
		Pods: []Pod{{Containers: []PodContainer{{Container: "app", Field: "requests.cpu", Now: "200m"}}}},
		Decisions: []answers.Decision{
			{Time: at(1), Action: "Recommend", Changes: []string{"container app: target.cpu unset → 200m by estimate/bounds/target", "container app: target.memory unset → 1Gi"}},
			{Time: at(2), Action: "Wait", Changes: []string{"container app: requests.cpu 100m → 200m"}},
			{Time: at(3), Action: "InPlace", Changes: []string{"container app: requests.cpu 100m → 200m"}},
			{Time: at(4), Action: "Recommend", Changes: []string{"container app: target.cpu 200m → 300m"}},
		}}
	r.addHistory()
	require.Equal(t, []Point{{Time: at(1), Target: "200m"}, {Time: at(3), Target: "200m", Request: "200m"}, {Time: at(4), Target: "300m", Request: "200m"},
		{Time: at(9), Usage: "250m", Request: "200m", Target: "300m", UpperBound: "1"}}, r.Resources[0].History)
	require.Empty(t, r.Resources[1].History, "nothing is known of it")
}
