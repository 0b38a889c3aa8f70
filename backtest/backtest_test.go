package backtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAContainerThatAsksForTooMuchGetsLess: usage is steady, so the known best is the shipped
// percentile of it with its margin, once the bounds are narrow enough.
func TestAContainerThatAsksForTooMuchGetsLess(t *testing.T) {
	w := newWorld(t, deployment("shop", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"))
	w.options.Points = 10
	w.usage(pod("shop", 0), 0, 8*day, 5*time.Minute, always(0.25), always(300<<20))
	r := w.run(with(t, "shipped"))
	require.Equal(t, Window{From: epoch, To: epoch.Add(8 * day), Seconds: 8 * 24 * 3600}, r.Window)

	before, after := of(t, r, Manifest).Containers[0], of(t, r, "shipped").Containers[0]
	require.Equal(t, 0.75, before.CPU.SlackMean)
	require.Equal(t, 0.75, before.CPU.SlackShare)
	require.Equal(t, 8*24.0, before.CPU.RequestedCoreHours)
	require.Zero(t, before.Evictions)
	require.Equal(t, 1, after.Evictions)
	require.Less(t, after.CPU.SlackMean, 0.75)
	require.EqualValues(t, 60, *after.FirstRecommendationSeconds)
	require.Len(t, after.Series.Events, 1)
	t.Logf("%+v", after.Series.Events)
	t.Logf("%+v", after.Series.CPU)
	t.Logf("%+v", after.Series.Causes)
}
