package updater

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/metric"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestGaugesAreOfTheLastCycle(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("flat", 5, vpav1.UpdateModeRecreate)
	w.workload("tall", 2, vpav1.UpdateModeInPlaceOrRecreate)
	w.cycle()
	has := func(g *metric.Table, want float64, labels ...string) {
		t.Helper()
		require.Equal(t, want, testutil.ToFloat64(g.WithLabelValues(labels...)))
	}
	has(controlledPods, 5, "2", "Recreate")
	has(controlledPods, 2, "1", "InPlaceOrRecreate")
	has(evictablePods, 5, "2", "Recreate")
	has(vpasEvictable, 1, "2", "Recreate")
	has(vpasEvicted, 1, "2", "Recreate")
	has(updatablePods, 2, "1")
	has(vpasUpdatable, 1, "1")
	has(vpasUpdated, 1, "1")
	has(decidedPods, 2, "Evict", "update/evict")
	has(decidedPods, 1, "InPlace", "update/resize")
	has(decidedPods, 4, "Wait", "update/budget-spent")
	has(blockedPods, 4, "waiting", "update/budget-spent")
	require.Equal(t, 1, testutil.CollectAndCount(blockedPods), "other pods are still updated")
	require.Zero(t, testutil.ToFloat64(unreachedVPAs))

	// The next cycle reaches no VPA.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.RunOnce(ctx)
	has(controlledPods, 3, "1", "Recreate")
	has(evictablePods, 5, "1", "Recreate")
	has(vpasEvicted, 0, "1", "Recreate")
	require.Equal(t, 2.0, testutil.ToFloat64(unreachedVPAs))
}

func TestCountersStartAtZeroAndEndWithTheirVPA(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("counted", 1, vpav1.UpdateModeRecreate)
	series := func() (n int) {
		families, err := metrics.Registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.Metric {
				if strings.Contains(fmt.Sprint(m), `"counted"`) {
					n++
				}
			}
		}
		return n
	}
	w.cycle()
	require.Equal(t, 1, series())
	require.NoError(t, w.WithWatch.Delete(t.Context(), &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "counted"}}, client.GracePeriodSeconds(0)))
	w.cycle()
	require.Zero(t, series())
}
