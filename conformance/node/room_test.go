package node

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestADeferredResizeWaitsForRoom on the node, in mode InPlace: nothing is evicted and nothing is sent over it; once another pod is
// gone the kubelet carries it out by itself. It fills the node, so it is not parallel to others.
func TestADeferredResizeWaitsForRoom(t *testing.T) {
	ns := namespace(t, "deferred")
	pod := &deploy(t, ns, "web", 1, "containers: [{resources: {requests: {cpu: 50m, memory: 20Mi}, limits: {cpu: 100m, memory: 60Mi}}}]")[0]
	filler := fill(t, ns, 100)
	watch(t, ns, "web", pinned("InPlace", "{cpu: 250m, memory: 20Mi}"))
	until(t, patience, "the kubelet to defer the resize", func(context.Context) (bool, string) {
		reason, message := conditionOf(get(t, pod), corev1.PodResizePending)
		return reason == corev1.PodReasonDeferred, reason + ": " + message
	})
	explained(t, ns, "web", "resize/resize-under-way")
	kernelHas(t, pod, "app", 100, 60<<20)
	require.NoError(t, cluster.Delete(t.Context(), filler))
	kernelHas(t, pod, "app", 500, 60<<20)
	undisturbed(t, pod, 0)
}

// fill creates a pod that leaves so many milli-cores of the node free. It waits until the pods of earlier tests are gone: they would
// leave more.
func fill(t *testing.T, ns string, rest int64) *corev1.Pod {
	t.Helper()
	until(t, patience, "namespaces of earlier tests to be gone", func(ctx context.Context) (bool, string) {
		var list corev1.NamespaceList
		if err := cluster.List(ctx, &list); err != nil {
			return false, err.Error()
		}
		leaving := []string{}
		for _, n := range list.Items {
			if n.DeletionTimestamp != nil && strings.HasPrefix(n.Name, testNamespaces) {
				leaving = append(leaving, n.Name)
			}
		}
		return len(leaving) == 0, strings.Join(leaving, ", ")
	})
	var n corev1.Node
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: nodeName}, &n))
	var pods corev1.PodList
	require.NoError(t, cluster.List(t.Context(), &pods))
	free := n.Status.Allocatable.Cpu().MilliValue() - rest
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, c := range p.Spec.Containers {
			free -= c.Resources.Requests.Cpu().MilliValue()
		}
	}
	require.Positive(t, free, "the node has no room for this test")
	filler := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "filler"}, Spec: podSpec(t, fmt.Sprintf("containers: [{resources: {requests: {cpu: %dm}}}]", free))}
	until(t, patience, "the filler to be created", func(ctx context.Context) (bool, string) {
		err := cluster.Create(ctx, filler) // refused while no replica of the webhook is ready, as on a busy machine
		return err == nil, fmt.Sprint(err)
	})
	until(t, patience, "the filler to run", func(context.Context) (bool, string) {
		now := get(t, filler)
		return isReady(now), string(now.Status.Phase)
	})
	t.Logf("%dm of %s are taken, %dm are free", n.Status.Allocatable.Cpu().MilliValue()-rest, n.Status.Allocatable.Cpu(), rest)
	return filler
}

// TestAResizeBeyondTheNodeIsRemembered in mode InPlace, and never evicts; less is tried again. AEP-8818's "No Eviction on Failure",
// "Infeasible Patch Rejection with NodeCapacity Cause" and "Retry After Recommendation Change", with what a real node can give.
func TestAResizeBeyondTheNodeIsRemembered(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "infeasible")
	pod := &deploy(t, ns, "web", 1, "containers: [{resources: {requests: {cpu: 25m, memory: 20Mi}, limits: {cpu: 100m, memory: 60Mi}}}]")[0]
	watch(t, ns, "web", pinned("InPlace", "{cpu: 200, memory: 20Mi}"))
	explained(t, ns, "web", "resize/known-infeasible")
	kernelHas(t, pod, "app", 100, 60<<20)
	undisturbed(t, pod, 0)
	change(t, ns, "web", pinned("InPlace", "{cpu: 50m, memory: 20Mi}"))
	kernelHas(t, pod, "app", 200, 60<<20)
	undisturbed(t, pod, 0)
	var list corev1.EventList
	require.NoError(t, cluster.List(t.Context(), &list, client.InNamespace(ns)))
	for _, e := range list.Items {
		require.False(t, strings.HasPrefix(e.Reason, "Evict"), e.Message)
	}
}
