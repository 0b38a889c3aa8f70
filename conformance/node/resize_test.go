package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAResizeReachesTheKernel, in both modes that resize: the pod is the same, no container restarts, the QoS class stays, and a
// container that the kernel throttled runs free. AEP-8818's "Basic In-Place Update" is the second.
// It is not parallel to others: on a busy node a container gets too little CPU to be throttled.
func TestAResizeReachesTheKernel(t *testing.T) {
	for mode, name := range map[string]string{"InPlaceOrRecreate": "resize-or-recreate", "InPlace": "resize"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, name)
			pod := &deploy(t, ns, "web", 1, "containers: [{args: ['-burn=200'], resources: {requests: {cpu: 25m, memory: 40Mi}, limits: {cpu: 100m, memory: 80Mi}}}]")[0]
			kernelHas(t, pod, "app", 100, 80<<20)
			before := throttling(t, pod, "app")
			watch(t, ns, "web", pinned(mode, "{cpu: 75m, memory: 60Mi}"))
			kernelHas(t, pod, "app", 300, 120<<20)
			resized(t, ns, "update/resize")
			until(t, patience, "the status to follow the kernel", func(context.Context) (bool, string) {
				requests := get(t, pod).Status.ContainerStatuses[0].Resources.Requests
				return requests.Cpu().String() == "75m" && requests.Memory().String() == "60Mi", fmt.Sprintf("requests cpu %s, memory %s", requests.Cpu(), requests.Memory())
			})
			now := undisturbed(t, pod, 0)
			require.Greater(t, before, 0.1, "200m do not fit into 100m, however little a busy node gives")
			for begin, after := time.Now(), before; after >= before/2; { // a busy node makes some looks worse
				require.Less(t, time.Since(begin), patience)
				after = throttling(t, now, "app")
				t.Logf("throttled in %.0f%% of the periods before and in %.0f%% after", 100*before, 100*after)
			}
		})
	}
}

// TestAContainerRestartsWhereItsResizePolicySaysSo, and the pod stays.
func TestAContainerRestartsWhereItsResizePolicySaysSo(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "restart")
	pod := &deploy(t, ns, "web", 1, `containers:
- resources: {requests: {cpu: 25m, memory: 20Mi}, limits: {cpu: 200m, memory: 40Mi}}
  resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: RestartContainer}]
- {name: side, resources: {requests: {cpu: 10m, memory: 8Mi}}}`)[0]
	watch(t, ns, "web", "{updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}, resourcePolicy: {containerPolicies: [{containerName: side, mode: 'Off'}, {containerName: app, minAllowed: {cpu: 25m, memory: 30Mi}, maxAllowed: {cpu: 25m, memory: 30Mi}}]}}")
	kernelHas(t, pod, "app", 200, 60<<20)
	running(t, ns, "web", 1)
	now := get(t, pod)
	restarts := map[string]int32{}
	for _, s := range now.Status.ContainerStatuses {
		restarts[s.Name] = s.RestartCount
	}
	require.Equal(t, map[string]int32{"app": 1, "side": 0}, restarts)
}
