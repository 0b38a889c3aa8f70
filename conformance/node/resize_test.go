package node

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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

// report is what the workload says of itself; see workload/serve.go.
type report struct {
	Milli  int64             `json:"milli"`
	Bytes  int64             `json:"bytes"`
	Cgroup map[string]string `json:"cgroup"`
}

// order tells the workload in container app what to do, through the API server: "burn?milli=200", "hold?bytes=1048576", "exit?code=1".
func order(t *testing.T, p *corev1.Pod, verb, parameter string, value int64) report {
	t.Helper()
	var r report
	until(t, patience, fmt.Sprintf("%s %s to %s=%d", p.Name, verb, parameter, value), func(ctx context.Context) (bool, string) {
		var err error
		r, err = tryOrder(ctx, p, verb, parameter, value)
		if err != nil {
			return false, err.Error()
		}
		return true, fmt.Sprintf("holds %d MiB, burns %dm; memory.max %s, cpu.max %s", r.Bytes>>20, r.Milli, r.Cgroup["memory.max"], r.Cgroup["cpu.max"])
	})
	return r
}

// tryOrder gives up in time: a proxy may not notice that who it asked was killed.
func tryOrder(ctx context.Context, p *corev1.Pod, verb, parameter string, value int64) (r report, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	text, err := clients.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Name(p.Name+":8080").SubResource("proxy").
		Suffix(verb).Param(parameter, fmt.Sprint(value)).DoRaw(ctx)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}
