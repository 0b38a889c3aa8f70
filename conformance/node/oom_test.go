package node

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// small is a container that is killed if it holds 100 MiB. Usage alone would keep its request.
const (
	small   = "containers: [{resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}}]"
	tooMuch = 100 << 20
)

// overuse makes container app hold more memory than it may, for which the kernel kills it.
func overuse(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	order(t, pod, "hold", "bytes", 0)                           // it can be reached
	_, _ = tryOrder(t.Context(), pod, "hold", "bytes", tooMuch) // what is killed does not answer; a second order could kill it again
}

// killedForMemory lets the kernel kill container app, and waits until the kubelet says so.
func killedForMemory(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	overuse(t, pod)
	until(t, patience, "an OOM kill", func(context.Context) (bool, string) {
		now := get(t, pod)
		s := now.Status.ContainerStatuses[0]
		for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
			if state.Terminated != nil && state.Terminated.Reason == "OOMKilled" {
				return true, fmt.Sprintf("OOMKilled, exit code %d, restarts %d", state.Terminated.ExitCode, s.RestartCount)
			}
		}
		return false, fmt.Sprintf("restarts %d", s.RestartCount)
	})
}

// TestAnOOMKillRaisesMemory in place, by the flags' bump and by that of the VPA's own (AEP-8026: "different configurations are
// properly applied", "outcomes for different parameter combinations", "fallback to global configuration").
func TestAnOOMKillRaisesMemory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, policy string
		memory       int64 // of the sample that stands for the kill, MiB
	}{
		{"flags", "", 64 + 32}, // --oom-min-bump-up-bytes is 32 MiB
		{"at-least", "oomMinBumpUp: 64Mi", 64 + 64},
		{"ratio", "oomBumpUpRatio: 3", 3 * 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, "oom-"+tt.name)
			pod := &deploy(t, ns, "web", 1, small)[0]
			watch(t, ns, "web", "{updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}, resourcePolicy: {containerPolicies: [{containerName: app, controlledResources: [memory], "+tt.policy+"}]}}")
			recommended(t, ns, "web", func(_, bytes int64) bool { return bytes < 64<<20 })
			killedForMemory(t, pod)
			var target int64
			recommended(t, ns, "web", func(_, bytes int64) bool {
				target = bytes
				least := tt.memory << 20 * 115 / 100 // with the safety margin
				return bytes >= least && bytes <= least*110/100
			})
			kernelHas(t, pod, "app", 200, target)
			undisturbed(t, pod, 1)
			t.Logf("64 MiB became %d bytes in place; the kill is the only restart", target)
			if target > tooMuch+16<<20 {
				order(t, pod, "hold", "bytes", tooMuch)
				undisturbed(t, pod, 1)
			}
		})
	}
}

// TestAnOOMKillRaisesMemoryByEviction, in a mode that does not resize: evictAfterOOMSeconds of the VPA (AEP-8026) makes the kill of a
// container that lived long enough no reason, and a longer one makes it a reason.
func TestAnOOMKillRaisesMemoryByEviction(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "oom-evict")
	const spec = "{updatePolicy: {updateMode: Recreate, minReplicas: 1, evictAfterOOMSeconds: %d}, resourcePolicy: {containerPolicies: [{containerName: app, controlledResources: [memory]}]}}"
	pod := &deploy(t, ns, "web", 1, small)[0]
	watch(t, ns, "web", fmt.Sprintf(spec, 3600))
	recommended(t, ns, "web", func(_, bytes int64) bool { return bytes < 64<<20 })
	overuse(t, pod) // the pod may be evicted, and gone, before its status could be read here
	// Usage stays below its limit of 64 MiB, so only a kill asks for more than 96.
	now := successor(t, pod, func(p *corev1.Pod) bool { return p.Spec.Containers[0].Resources.Limits.Memory().Value() > 96<<20 })
	kernelHas(t, now, "app", 200, now.Spec.Containers[0].Resources.Limits.Memory().Value())
	evicted(t, ns, "update/evict")
}
