package updater

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// firstWorld has many pods to evict, and the limit of a process that has just started.
func firstWorld(t *testing.T, workloads int) *world {
	w := newWorld(t, func(o *Options) { o.FirstCycle = 2 })
	for i := range workloads {
		w.workload(fmt.Sprintf("web%02d", i), 2, vpav1.UpdateModeRecreate) // of which one at a time
	}
	return w
}

func postponedFirst() float64 {
	return testutil.ToFloat64(postponedPods.WithLabelValues(postponedByStart))
}

func TestFirstCyclesEvictFewAndDoubleWhileMoreIsNeeded(t *testing.T) {
	w := firstWorld(t, 20)
	var evicted []int
	var postponed []float64
	for range 5 {
		w.cycle()
		evicted, postponed = append(evicted, len(w.done)), append(postponed, postponedFirst())
		w.clock.Step(w.Interval)
	}
	require.Equal(t, []int{2, 4, 8, 6, 0}, evicted, "twice as many in each cycle, until all are done")
	require.Equal(t, []float64{36, 28, 12, 0, 0}, postponed, "both pods of each workload that got nothing")
	require.Contains(t, strings.Join(w.logs, "\n"), `"postponed"=36 "limit"=4`)
	require.Equal(t, 16, w.first.limit, "the fourth cycle needed no more than its limit")
}

func TestFirstCyclesWithoutEvictionsDoNotRaiseTheLimit(t *testing.T) {
	w := firstWorld(t, 6)
	w.refuse = func(ask, _ string) error {
		if ask == "evict" {
			return budgetRefusal(2)
		}
		return nil
	}
	w.Concurrent = 1 // no eviction is under way while another one is refused
	require.Len(t, w.cycle(), 6, "a refused eviction does not count")
	require.Zero(t, postponedFirst())
	require.Equal(t, 2, w.first.limit)
}

func TestFirstCyclesLimitResizesThatRestartContainersOnly(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.FirstCycle = 1 })
	for i := range 3 {
		w.workload(fmt.Sprintf("calm%d", i), 2, vpav1.UpdateModeInPlaceOrRecreate)
		w.workload(fmt.Sprintf("hard%d", i), 2, vpav1.UpdateModeInPlaceOrRecreate)
	}
	var pods corev1.PodList
	require.NoError(t, w.List(t.Context(), &pods))
	for i := range pods.Items {
		if pod := &pods.Items[i]; strings.HasPrefix(pod.Name, "hard") {
			pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
			require.NoError(t, w.Update(t.Context(), pod))
		}
	}
	count := func(prefix string) (n int) {
		for _, done := range w.done {
			if strings.HasPrefix(done, prefix) {
				n++
			}
		}
		return n
	}
	w.cycle()
	require.Equal(t, 3, count("resize calm"))
	require.Equal(t, 1, count("resize hard"))
	require.Equal(t, 4.0, postponedFirst())
}

func TestWithoutALimitTheFirstCycleEvictsAll(t *testing.T) {
	for _, limit := range []int{0, -1} {
		w := newWorld(t, func(o *Options) { o.FirstCycle = limit })
		for i := range 4 {
			w.workload(fmt.Sprintf("web%d", i), 2, vpav1.UpdateModeRecreate)
		}
		require.Len(t, w.cycle(), 4)
		require.Zero(t, postponedFirst())
	}
}
