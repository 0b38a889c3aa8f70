package integration

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// aRestartLosesNothing kills recommenders (SIGKILL) whose checkpoints are written. Pod statuses and
// VPA statuses are cleared meanwhile, so only checkpoints say what was known: an increase after an OOM
// kill, and a memory peak of the window that is open. No CPU sample counts twice.
func aRestartLosesNothing(t *testing.T) {
	ns := namespace(t, "rec-restart")
	create(t, unused(ns, "bumped", "app"), steady(ns, "peaked", 1), vpa(ns, "bumped", vpav1.UpdateModeOff), vpa(ns, "peaked", vpav1.UpdateModeOff))
	run(t, ns, 1)
	running(t, ns, 2)
	wanted := func(r *aRecommender) {
		t.Helper()
		hang.Eventually(t, "the OOM kill and the peak to count", func(ctx context.Context) (bool, error) {
			bumped, peaked := memoryTarget(ctx, ns, "bumped"), memoryTarget(ctx, ns, "peaked")
			return bumped == targetFor(1200<<20) && peaked == steadyMemory.Value(), nil
		})
		stored(t, ns, "bumped-app", func(p *vpav1.CheckpointPod) bool { return ptr.Deref(p.OOMPeak, 0) == 1200<<20 })
		stored(t, ns, "peaked-app", func(p *vpav1.CheckpointPod) bool { return ptr.Deref(p.MemoryPeak, 0) > 100<<20 })
	}
	r := startRecommender(t, ns)
	hang.Eventually(t, "a peak", func(ctx context.Context) (bool, error) {
		return memoryTarget(ctx, ns, "peaked") == steadyMemory.Value(), nil
	})
	killed(t, ns, "bumped")
	wanted(r)
	require.Empty(t, readCheckpoint(t, ns, "peaked-app").MemoryHistogram.BucketWeights, "the window is open")

	pod := podOf(t, ns, "peaked")
	lower := `{"metadata":{"annotations":{"app.usage/memory-low":"60Mi","app.usage/memory-high":"60Mi"}}}`
	require.NoError(t, cluster.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(lower))))
	hang.Eventually(t, "less to be used", func(ctx context.Context) (bool, error) {
		var used metricsv1beta1.PodMetricsList
		err := cluster.List(ctx, &used, client.InNamespace(ns))
		return slices.ContainsFunc(used.Items, func(one metricsv1beta1.PodMetrics) bool {
			return one.Name == pod.Name && bytesOf(one.Containers[0].Usage) < 100<<20
		}), err
	})
	for range 4 {
		r.cycles(t, 1)
		r.Kill()
		r.stopped = true
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			pod := podOf(t, ns, "bumped")
			for i := range pod.Status.ContainerStatuses {
				pod.Status.ContainerStatuses[i].LastTerminationState = corev1.ContainerState{}
			}
			return cluster.Status().Update(t.Context(), pod)
		}))
		for _, name := range []string{"bumped", "peaked"} {
			var v vpav1.VerticalPodAutoscaler
			require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &v))
			v.Status = vpav1.VerticalPodAutoscalerStatus{}
			require.NoError(t, cluster.Status().Update(t.Context(), &v))
		}
		r = startRecommender(t, ns)
		wanted(r)
		require.Zero(t, r.value(`celvpa_recommender_checkpoints_loaded_total{result="unreadable"}`))
	}
	counted := readCheckpoint(t, ns, "peaked-app").TotalSamplesCount
	require.Positive(t, counted)
	require.LessOrEqual(t, counted, usageOfPods.Readings(pod.UID), "each reading counts once")
	t.Logf("%d of %d readings counted, by 5 processes", counted, usageOfPods.Readings(pod.UID))
}

// stored waits until a checkpoint says something about its only pod. On a busy machine it is written some cycles after the
// status.
func stored(t *testing.T, ns, name string, says func(*vpav1.CheckpointPod) bool) {
	t.Helper()
	hang.Eventually(t, "checkpoint "+name+" to be written", func(ctx context.Context) (bool, error) {
		var c vpav1.VerticalPodAutoscalerCheckpoint
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &c); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		resume := c.Status.Resume
		return resume != nil && len(resume.Pods) == 1 && says(&resume.Pods[0]), nil
	})
}

// memoryTarget is the memory target of a VPA with one container, in bytes; 0 without one.
func memoryTarget(ctx context.Context, ns, name string) int64 {
	var v vpav1.VerticalPodAutoscaler
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil || v.Status.Recommendation == nil {
		return 0
	}
	list := v.Status.Recommendation.ContainerRecommendations
	if len(list) != 1 {
		return 0
	}
	return bytesOf(list[0].Target)
}
