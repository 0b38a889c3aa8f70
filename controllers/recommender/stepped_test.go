package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The clock of the recommender's machine is not that of the machine with the usage.

const year = 365 * 24 * time.Hour

// started is a recommender that starts while its clock is ahead, or behind, of a VPA with history and a
// recommendation.
func started(t *testing.T, ahead time.Duration) (*cluster, *testclock.FakeClock) {
	t.Helper()
	c := newCluster(t, append(workload("a", "app"), checkpointOf("a", "app", 1000))...)
	c.cycle("a app")
	require.Equal(t, map[string]int{"a-app": 1001}, c.checkpoints())
	require.NotEmpty(t, c.vpa("a").Status.Recommendation.ContainerRecommendations)
	clk := testclock.NewFakeClock(time.Now().Add(ahead))
	next := newCluster(t, append(workload("a", "app")[1:], c.vpa("a"), storedBy(c))...)
	next.Clock = clk
	return next, clk
}

func storedBy(c *cluster) client.Object {
	c.t.Helper()
	stored := checkpointOf("a", "app", 0)
	require.NoError(c.t, c.api.Get(c.t.Context(), client.ObjectKeyFromObject(stored), stored))
	stored.ResourceVersion = ""
	return stored
}

// TestAClockThatIsWrongAtTheStartEndsNoHistory: samples of days ago look too old, and those of now look
// like the future.
func TestAClockThatIsWrongAtTheStartEndsNoHistory(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"an hour ahead": time.Hour, "a day ahead": 24 * time.Hour, "a year ahead": year,
		"an hour behind": -time.Hour + time.Minute, "a day behind": -23 * time.Hour, "two days behind": -48 * time.Hour, "a year behind": -year} {
		t.Run(name, func(t *testing.T) {
			c, clk := started(t, ahead)
			before := c.vpa("a").Status.Recommendation
			for range 3 {
				c.cycle("a app")
				clk.Step(2 * time.Hour) // usage that is too old is collected once an hour
			}
			require.Equal(t, before.ContainerRecommendations[0].Target.Cpu().MilliValue(), c.vpa("a").Status.Recommendation.ContainerRecommendations[0].Target.Cpu().MilliValue())
			samples := c.checkpoints()["a-app"]
			require.GreaterOrEqual(t, samples, 1001)
			clk.SetTime(time.Now())
			c.cycle("a app")
			require.Equal(t, samples+1, c.checkpoints()["a-app"], "the history goes on")
		})
	}
}

// TestACheckpointOfTheFutureIsReplacedOnceTheTimeIsKnown: it is of no use, and must not wait for ever.
func TestACheckpointOfTheFutureIsReplacedOnceTheTimeIsKnown(t *testing.T) {
	future := checkpointOf("a", "app", 1000)
	future.Status.LastSampleStart.Time = time.Now().Add(year)
	c := newCluster(t, append(workload("a", "app"), future)...)
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1000}, c.checkpoints())
	require.Equal(t, 1, c.count("checkpoints have times in the future, or this machine's clock is behind"))
	c.cycle("a app")
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())
	require.Equal(t, 1, c.count("checkpoint unusable"))
}
