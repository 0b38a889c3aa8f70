package updater

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestABudgetThatRefusesIsLeftInPeaceForAWhile(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("kept", 4, vpav1.UpdateModeRecreate)
	w.workload("free", 2, vpav1.UpdateModeRecreate)
	w.refuse = func(ask, name string) error {
		if ask == "evict" && name[:4] == "kept" {
			return budgetRefusal(4)
		}
		return nil
	}
	require.ElementsMatch(t, []string{"evict kept-01", "evict free-05"}, w.cycle(), "one refusal is enough for the group, and does not touch others")
	require.Len(t, w.heard("EvictionRefused"), 1)
	require.Contains(t, w.heard("EvictionRefused")[0], "EvictionRefused of kept: Pod kept-01 may not be evicted: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget keep needs 4")
	require.Contains(t, w.heard("EvictionRefused")[0], "(update/evict)")
	require.Equal(t, 1.0, testutil.ToFloat64(failedEvictions.WithLabelValues("2", "Recreate", "kept", "ns", "EvictionError")))

	w.clock.Step(30 * time.Second)
	require.Empty(t, w.cycle())
	w.clock.Step(30 * time.Second)
	require.Equal(t, []string{"evict kept-01"}, w.cycle(), "after a minute")
	w.clock.Step(time.Minute)
	require.Empty(t, w.cycle(), "two refusals in a row: two minutes")
	require.Len(t, w.heard("EvictionRefused"), 1, "told once until it changes")

	w.clock.Step(time.Minute)
	w.refusing("evict", nil)
	require.Equal(t, []string{"evict kept-01", "evict kept-02"}, w.cycle())
	w.pod("kept", nil)
	w.pod("kept", nil)
	w.refusing("evict", budgetRefusal(4))
	w.clock.Step(time.Second)
	require.Len(t, w.cycle(), 1, "the back-off begins anew")
	require.Len(t, w.heard("EvictionRefused"), 2, "it was over")
}
