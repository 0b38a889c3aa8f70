package recommender

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// TestACycleForgetsWhatNothingRefersTo, and not only the hourly collection of garbage.
func TestACycleForgetsWhatNothingRefersTo(t *testing.T) {
	objects := workload("web", "app")
	c := newCluster(t, objects...)
	settings := model.DefaultSettings()
	settings.UnusedGrace = 0
	c.State = NewState(settings, logr.Discard(), nil)
	c.cycle("web app")
	require.Equal(t, 1, c.State.cluster.Aggregates())
	for _, o := range objects {
		require.NoError(t, c.api.Delete(t.Context(), o))
	}
	c.cycle()
	c.cycle()
	require.Zero(t, c.State.cluster.Aggregates())
}
