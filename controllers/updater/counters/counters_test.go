package counters

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
		require.Equal(t, want, Of(v, pods).Size, pods)
	}
	require.Equal(t, "Recreate", Of(v, 0).Mode)
	empty := vpav1.UpdateMode("")
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &empty}
	require.Equal(t, "Recreate", Of(v, 0).Mode)
}

func TestNothingIsLeftOfAForgottenVPA(t *testing.T) {
	series := func() (n int) {
		for _, c := range []prometheus.Collector{EvictedPods, FailedEvictions, ResizedPods, FailedResizes, InfeasibleSkips} {
			n += testutil.CollectAndCount(c)
		}
		return n
	}
	count := func(name string) {
		v := &vpav1.VerticalPodAutoscaler{}
		v.Namespace, v.Name = "ns", name
		for _, mode := range []vpav1.UpdateMode{vpav1.UpdateModeRecreate, vpav1.UpdateModeInPlaceOrRecreate} {
			v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
			for _, pods := range []int{1, 3} {
				one := Of(v, pods)
				one.Begin()
				one.Evicted()
				one.Resized()
				one.SkippedAsInfeasible()
				for _, reason := range []string{Eviction, EvictionLimit, "OneOfTomorrow"} {
					one.EvictionFailed(reason)
				}
				for _, reason := range []string{Resize, Infeasible, ResizeLimit, Unboost, "OneOfTomorrow"} {
					one.ResizeFailed(reason)
				}
			}
		}
	}
	before := series()
	count("stays")
	one := series() - before
	require.Equal(t, 4*(1+3)+2*(1+5+1), one)
	count("gone")
	Forget(types.NamespacedName{Namespace: "ns", Name: "gone"})
	require.Equal(t, one, series()-before)
	Forget(types.NamespacedName{Namespace: "ns", Name: "stays"})
	require.Equal(t, before, series())
	require.NotContains(t, counted.as, types.NamespacedName{Namespace: "ns", Name: "stays"})
	require.NotContains(t, counted.reasons, types.NamespacedName{Namespace: "ns", Name: "stays"})
}
