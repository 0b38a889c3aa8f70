package updater

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestSizesAreLogarithms(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{}
	for pods, want := range map[int]string{0: "0", 1: "0", 2: "1", 3: "1", 4: "2", 1023: "9", 1024: "10", 1<<20 - 1: "19", 1 << 20: "20", 1 << 25: "20"} {
		require.Equal(t, want, countersOf(v, pods).size, pods)
	}
	require.Equal(t, "Recreate", countersOf(v, 0).mode)
	empty := vpav1.UpdateMode("")
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &empty}
	require.Equal(t, "Recreate", countersOf(v, 0).mode)
}

func TestNothingIsLeftOfAForgottenVPA(t *testing.T) {
	series := func() (n int) {
		for _, c := range []prometheus.Collector{evictedPods, failedEvictions, resizedPods, failedResizes, infeasibleSkips} {
			n += testutil.CollectAndCount(c)
		}
		return n
	}
	count := func(name string) {
		v := &vpav1.VerticalPodAutoscaler{}
		v.Namespace, v.Name = "counted", name
		for _, mode := range []vpav1.UpdateMode{vpav1.UpdateModeRecreate, vpav1.UpdateModeInPlaceOrRecreate} {
			v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
			for _, pods := range []int{1, 3} {
				c := countersOf(v, pods)
				c.begin()
				c.evicted()
				c.resized()
				c.skippedAsInfeasible()
				for _, reason := range []string{reasonEviction, reasonEvictionLimit, "OneOfTomorrow"} {
					c.evictionFailed(reason)
				}
				for _, reason := range []string{reasonResize, reasonInfeasible, reasonResizeLimit, reasonUnboost, "OneOfTomorrow"} {
					c.resizeFailed(reason)
				}
			}
		}
	}
	before := series()
	count("stays")
	one := series() - before
	require.Equal(t, 4*(1+3)+2*(1+5+1), one)
	count("gone")
	forgetCounters(types.NamespacedName{Namespace: "counted", Name: "gone"})
	require.Equal(t, one, series()-before)
	forgetCounters(types.NamespacedName{Namespace: "counted", Name: "stays"})
	require.Equal(t, before, series())
	require.NotContains(t, countedVPAs.as, types.NamespacedName{Namespace: "counted", Name: "stays"})
	require.NotContains(t, countedVPAs.reasons, types.NamespacedName{Namespace: "counted", Name: "stays"})
}
