package updater

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// recommend changes a VPA's recommendation.
func (w *world) recommend(name, cpu, memory string) {
	w.t.Helper()
	var v vpav1.VerticalPodAutoscaler
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &v))
	v.Status.Recommendation.ContainerRecommendations[0].Target = amounts(cpu, memory)
	require.NoError(w.t, w.WithWatch.Status().Update(w.t.Context(), &v))
}

var beyondNode = forbidden("node didn't have enough allocatable resources", "NodeCapacity")

// AEP-8818, test plan: "Infeasible Patch Rejection with NodeCapacity Cause", "No Retry for
// Unchanged Recommendation", "Retry After Recommendation Change" and "Successful Update Clears
// Stored Attempt".
func TestInfeasibleResizesAreRetriedOnlyForLess(t *testing.T) {
	w := newWorld(t, nil, "InPlace")
	w.workload("infeasible", 2, vpav1.UpdateModeInPlace)
	failed := func(reason string) float64 {
		return testutil.ToFloat64(failedResizes.WithLabelValues("1", "infeasible", "ns", reason))
	}
	skipped := func() float64 {
		return testutil.ToFloat64(infeasibleSkips.WithLabelValues("1", "infeasible", "ns"))
	}
	w.refusing("resize", beyondNode)
	require.Len(t, w.cycle(), 2, "both are tried once")
	require.Equal(t, 2.0, failed(reasonInfeasible))
	require.Zero(t, failed(reasonResize))

	require.Empty(t, w.cycle(), "the same is wanted")
	w.recommend("infeasible", "600m", "512Mi")
	require.Empty(t, w.cycle(), "more is recommended")
	require.Equal(t, 4.0, skipped(), "counted in every cycle")
	require.Len(t, w.heard("InPlaceResizeSkipped"), 2, "reported once for each pod")

	w.recommend("infeasible", "600m", "500Mi")
	require.Len(t, w.cycle(), 2, "less of one resource is recommended")
	require.Empty(t, w.cycle(), "it is remembered in place of the first")
	require.Len(t, w.heard("InPlaceResizeSkipped"), 4, "reported once for each infeasible resize")

	w.refusing("resize", nil)
	w.recommend("infeasible", "600m", "450Mi")
	require.Len(t, w.cycle(), 1, "one at a time")
	require.Nil(t, w.memory.Infeasible("infeasible-01-uid"), "the API server accepted the resize")
	require.NotNil(t, w.memory.Infeasible("infeasible-02-uid"))
	require.Empty(t, w.heard("EvictedByVPA"), "mode InPlace never evicts")
}

// AEP-8818, test plan: "Infeasible Status Storage (pre-1.36)": the updater remembers the requests
// of the pod's spec.
func TestInfeasibleResizeOfTheKubeletIsTakenFromTheSpec(t *testing.T) {
	w := newWorld(t, nil, "InPlace")
	w.workload("web", 2, vpav1.UpdateModeInPlace)
	var pod corev1.Pod
	for _, name := range []string{"web-01", "web-02"} {
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &pod))
		pod.Spec.Containers[0].Resources.Requests = amounts("700m", "600Mi")
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: &corev1.ResourceRequirements{Requests: amounts("100m", "128Mi")}}}
		status := pod.Status
		require.NoError(t, w.WithWatch.Update(t.Context(), &pod))
		pod.Status = status
		require.NoError(t, w.WithWatch.Status().Update(t.Context(), &pod))
	}
	require.Empty(t, w.cycle())
	found := w.memory.Infeasible("web-01-uid")["app"]
	require.Equal(t, "700m 600Mi", found.Cpu().String()+" "+found.Memory().String())
	require.Equal(t, []string{"resize web-01"}, w.cycle(), "500m are less than 700m")
}

func TestTransientRefusalIsNotRememberedAsInfeasible(t *testing.T) {
	w := newWorld(t, nil, "InPlace")
	w.workload("web", 2, vpav1.UpdateModeInPlace)
	for _, err := range []error{errors.New("connection refused"), forbidden("exceeded quota: q, requested: cpu=1", ""), forbidden("no", "")} {
		w.refusing("resize", err)
		require.NotEmpty(t, w.cycle())
		require.Nil(t, w.memory.Infeasible("web-01-uid"))
		w.clock.Step(w.Interval)
	}
	require.Empty(t, w.heard("EvictedByVPA"))
}

// AEP-8818, test plan: "Stale Entry Cleanup".
func TestStaleEntryCleanup(t *testing.T) {
	w := newWorld(t, nil, "InPlace")
	w.workload("web", 2, vpav1.UpdateModeInPlace)
	w.refusing("resize", beyondNode)
	w.cycle()
	require.NotNil(t, w.memory.Infeasible("web-01-uid"))
	require.NoError(t, w.WithWatch.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-01"}}))
	w.cycle()
	require.Nil(t, w.memory.Infeasible("web-01-uid"))
	require.NotNil(t, w.memory.Infeasible("web-02-uid"))
}

func TestStaleEntryCleanupOfAllMemories(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 4, vpav1.UpdateModeRecreate)
	w.workload("tall", 4, vpav1.UpdateModeInPlaceOrRecreate)
	w.refusing("evict", budgetRefusal(4))
	w.cycle()
	w.refusing("evict", nil)
	w.workload("gone", 4, vpav1.UpdateModeRecreate)
	w.cycle()
	require.Positive(t, w.memory.Breaker.Len())
	require.Greater(t, w.memory.Len(), w.memory.Breaker.Len())
	require.NoError(t, w.WithWatch.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("ns")))
	require.NoError(t, w.WithWatch.DeleteAllOf(t.Context(), &vpav1.VerticalPodAutoscaler{}, client.InNamespace("ns")))
	w.clock.Step(time.Hour + time.Minute) // after which workloads without pods are forgotten
	w.cycle()
	require.Zero(t, w.memory.Len())
	require.Empty(t, w.tallies)
}

// Regression: with a cache that lagged, the kubelet's verdict on the old resize was taken for one
// on the new resize. The old requests replaced the new ones in memory, and a resize that the node
// had found infeasible was sent again.
func TestInfeasibleVerdictFromBeforeAResizeDoesNotCountAfterIt(t *testing.T) {
	w := newWorld(t, nil, "InPlace")
	w.workload("web", 2, vpav1.UpdateModeInPlace)
	var pod corev1.Pod
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-01"}, &pod))
	pod.Spec.Containers[0].Resources.Requests = amounts("700m", "600Mi")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: &corev1.ResourceRequirements{Requests: amounts("100m", "128Mi")}}}
	status := pod.Status
	require.NoError(t, w.WithWatch.Update(t.Context(), &pod))
	pod.Status = status
	require.NoError(t, w.WithWatch.Status().Update(t.Context(), &pod))
	w.refuse = func(_, name string) error {
		if name == "web-02" {
			return apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("not of interest"))
		}
		return nil
	}
	w.cycle()
	require.NotNil(t, w.memory.Infeasible("web-01-uid"))
	var vpas vpav1.VerticalPodAutoscalerList
	var shown corev1.PodList
	require.NoError(t, w.List(t.Context(), &vpas))
	require.NoError(t, w.List(t.Context(), &shown))
	require.Contains(t, w.cycle(), "resize web-01", "500m are less than 700m")

	r := w.newRun()
	r.forget(vpas.Items, pointersTo(shown.Items))
	r.updateAll(t.Context(), r.assign(t.Context(), vpas.Items, pointersTo(shown.Items)))
	require.Nil(t, w.memory.Infeasible("web-01-uid"), "the cache does not show the resize yet")
}
