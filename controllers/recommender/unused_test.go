package recommender

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestACycleForgetsWhatNothingRefersTo, and not only the hourly collection of garbage.
func TestACycleForgetsWhatNothingRefersTo(t *testing.T) {
	objects := workload("web", "app")
	c := newCluster(t, objects...)
	c.State = NewState(0, logr.Discard(), nil)
	c.cycle("web app")
	require.Equal(t, 1, c.State.cluster.Aggregates())
	for _, o := range objects {
		require.NoError(t, c.api.Delete(t.Context(), o))
	}
	c.cycle()
	c.cycle()
	require.Zero(t, c.State.cluster.Aggregates())
}

// TestUsageThatEndedIsNotRecommendedOnceMoreAfterARestart: the checkpoint of a workload that was scaled to 0 stays. Each new process
// recommended from it, and withdrew that in the next cycle.
func TestUsageThatEndedIsNotRecommendedOnceMoreAfterARestart(t *testing.T) {
	idle, ended := workload("idle", "app"), checkpointOf("idle", "app", 1000)
	last := time.Now().AddDate(0, 0, -9)
	ended.Status.FirstSampleStart, ended.Status.LastSampleStart = metav1.NewTime(last.AddDate(0, 0, -8)), metav1.NewTime(last)
	c := newCluster(t, append(workload("web", "app"), idle[0], idle[2], ended)...)
	for range 3 {
		c.cycle("web app")
		v := c.vpa("idle")
		require.Empty(t, v.Status.Recommendation.ContainerRecommendations)
		require.Equal(t, vpav1.NoPodsMatched, v.Status.Conditions[0].Type)
	}
	require.Equal(t, map[string]int{"web-app": 3, "idle-app": 1000}, c.checkpoints())
	times := 0
	for _, name := range c.statuses {
		if name == "idle" {
			times++
		}
	}
	require.Equal(t, 1, times, "its status is written once")
}
