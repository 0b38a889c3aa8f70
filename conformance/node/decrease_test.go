package node

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// full is a container that holds 60 MiB below its limit of 100 MiB. What lowers pins is a limit of 40 MiB, which a kubelet refuses.
const (
	full   = "containers: [{resources: {requests: {cpu: 20m, memory: 50Mi}, limits: {cpu: 200m, memory: 100Mi}}}]"
	holds  = 60 << 20
	lowers = "{cpu: 20m, memory: 20Mi}"
)

// holding deploys a full container.
func holding(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	pod := &deploy(t, ns, name, 1, full)[0]
	order(t, pod, "hold", "bytes", holds)
	return pod
}

// belowUsage waits until the kubelet has refused to lower the limit below usage.
func belowUsage(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	until(t, patience, "the kubelet to refuse a limit below usage", func(context.Context) (bool, string) {
		reason, message := conditionOf(get(t, pod), corev1.PodResizeInProgress)
		return reason == corev1.PodReasonError, reason + ": " + message
	})
	kernelHas(t, pod, "app", 200, 100<<20)
}

// wedged is a pod in mode InPlace whose kubelet has refused a limit below usage.
func wedged(t *testing.T, name string) (ns string, pod *corev1.Pod) {
	t.Helper()
	ns = namespace(t, name)
	pod = holding(t, ns, "web")
	watch(t, ns, "web", pinned("InPlace", lowers))
	belowUsage(t, pod)
	return ns, pod
}

// TestAMemoryLimitBelowUsage, in all update modes. Mode InPlace has two ways out: usage falls, or more is recommended; CPU waits for neither. AEP-8818's
// lines "Indefinite Wait for In-Progress Updates" and "Failed Update - Retry Success".
func TestAMemoryLimitBelowUsage(t *testing.T) {
	t.Parallel()
	t.Run("InPlace, until usage falls", func(t *testing.T) {
		t.Parallel()
		ns, pod := wedged(t, "below-falls")
		explained(t, ns, "web", "resize/resize-under-way")
		order(t, pod, "hold", "bytes", 0)
		kernelHas(t, pod, "app", 200, 40<<20)
		undisturbed(t, pod, 0)
	})
	t.Run("InPlace, until more is recommended", func(t *testing.T) {
		t.Parallel()
		ns, pod := wedged(t, "below-rises")
		change(t, ns, "web", pinned("InPlace", "{cpu: 20m, memory: 70Mi}"))
		kernelHas(t, pod, "app", 200, 140<<20)
		resized(t, ns, "update/resize-replaced")
		now := undisturbed(t, pod, 0)
		reason, _ := conditionOf(now, corev1.PodResizeInProgress)
		require.NotEqual(t, corev1.PodReasonError, reason, "the pod has healed")
	})
	t.Run("InPlace, and CPU does not wait", func(t *testing.T) {
		t.Parallel()
		ns, pod := wedged(t, "below-cpu")
		change(t, ns, "web", pinned("InPlace", "{cpu: 40m, memory: 20Mi}"))
		kernelHas(t, pod, "app", 400, 100<<20)
		resized(t, ns, "update/resize-cpu-first")
		order(t, pod, "hold", "bytes", 0)
		kernelHas(t, pod, "app", 400, 40<<20)
		undisturbed(t, pod, 0)
	})
	t.Run("InPlaceOrRecreate evicts", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, "below-recreate")
		pod := holding(t, ns, "web")
		watch(t, ns, "web", pinned("InPlaceOrRecreate", lowers))
		kernelHas(t, successor(t, pod, memoryLimit(40<<20)), "app", 200, 40<<20)
		evicted(t, ns, "update/resize-failed")
	})
	for _, mode := range []string{"Recreate", "Auto"} {
		t.Run(mode+" evicts", func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, map[string]string{"Recreate": "below-evict", "Auto": "below-auto"}[mode])
			pod := holding(t, ns, "web")
			watch(t, ns, "web", pinned(mode, lowers))
			kernelHas(t, successor(t, pod, memoryLimit(40<<20)), "app", 200, 40<<20)
			evicted(t, ns, "update/evict")
		})
	}
	t.Run("Off and Initial leave it alone", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, "below-off")
		off, initial := holding(t, ns, "off"), holding(t, ns, "initial")
		watch(t, ns, "off", pinned("'Off'", lowers))
		watch(t, ns, "initial", pinned("Initial", lowers))
		for _, pod := range []*corev1.Pod{off, initial} {
			recommended(t, ns, pod.Labels["app"], func(milli, bytes int64) bool { return milli == 20 && bytes == 20<<20 })
		}
		explained(t, ns, "off", "update-mode/not-in-this-mode")
		for _, pod := range []*corev1.Pod{off, initial} {
			kernelHas(t, pod, "app", 200, 100<<20)
			undisturbed(t, pod, 0)
		}
	})
}
