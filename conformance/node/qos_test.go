package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

const guaranteed = "containers: [{resources: {requests: {cpu: 100m, memory: 40Mi}, limits: {cpu: 100m, memory: 40Mi}}}]"

// TestAGuaranteedPodStaysGuaranteed when it is resized.
func TestAGuaranteedPodStaysGuaranteed(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "guaranteed")
	pod := &deploy(t, ns, "web", 1, guaranteed)[0]
	require.Equal(t, corev1.PodQOSGuaranteed, pod.Status.QOSClass)
	watch(t, ns, "web", pinned("InPlaceOrRecreate", "{cpu: 150m, memory: 60Mi}"))
	kernelHas(t, pod, "app", 150, 60<<20)
	undisturbed(t, pod, 0)
}

// TestARequestToLimitRatio has the two lines of AEP-8515's test plan.
func TestARequestToLimitRatio(t *testing.T) {
	t.Parallel()
	t.Run("that changes the QoS class evicts", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, "ratio-evict")
		pod := &deploy(t, ns, "web", 1, guaranteed)[0]
		watch(t, ns, "web", pinned("InPlaceOrRecreate", "{cpu: 60m, memory: 30Mi}", "requestToLimitRatio: {cpu: {type: Factor, factor: 2.5}, memory: {type: Quantity, quantity: 34Mi}}"))
		now := successor(t, pod, memoryLimit(64<<20))
		require.Equal(t, corev1.PodQOSBurstable, now.Status.QOSClass)
		kernelHas(t, now, "app", 150, 64<<20)
		evicted(t, ns, "update/qos-class")
	})
	t.Run("that keeps the QoS class is applied in place", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, "ratio")
		pod := &deploy(t, ns, "web", 1, "containers: [{resources: {requests: {cpu: 50m, memory: 30Mi}, limits: {cpu: 100m, memory: 60Mi}}}]")[0]
		watch(t, ns, "web", pinned("InPlaceOrRecreate", "{cpu: 80m, memory: 40Mi}", "requestToLimitRatio: {cpu: {type: Factor, factor: 2.5}, memory: {type: Quantity, quantity: 60Mi}}"))
		kernelHas(t, pod, "app", 200, 100<<20)
		undisturbed(t, pod, 0)
	})
}
