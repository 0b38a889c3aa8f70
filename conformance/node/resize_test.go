package node

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
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

// report is what the workload says of itself; see workload/main.go.
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

// podLevel is a pod with resources at pod level, in which one of two containers has its own.
const podLevel = `
resources: {requests: {cpu: 60m, memory: 48Mi}, limits: {cpu: 240m, memory: 96Mi}}
containers:
- {resources: {requests: {cpu: 20m, memory: 16Mi}}}
- {name: side}`

// podLevelVPA wants 120m and 64 MiB for the pod, whose limits follow: 480m and 128 MiB. The reason to change it is container app, whose
// request is below its minimum: the pod's own range counts only where containers are close to their targets (AEP-7571).
func podLevelVPA(mode string) string {
	return "{updatePolicy: {updateMode: " + mode + ", minReplicas: 1}, resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 60m, memory: 32Mi}}], podPolicies: {minAllowed: {cpu: 120m, memory: 64Mi}, maxAllowed: {cpu: 120m, memory: 64Mi}}}}"
}

// TestPodLevelResources has the three lines of AEP-7571's test plan: the recommender recommends for the pod and for its containers;
// the updater brings both to a running pod, by a resize or by an eviction; admission gives both to the new pod.
func TestPodLevelResources(t *testing.T) {
	t.Parallel()
	t.Run("are resized in place", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, "pod-level")
		pod := &deploy(t, ns, "web", 1, podLevel)[0]
		kernelHas(t, pod, "", 240, 96<<20)
		watch(t, ns, "web", podLevelVPA("InPlaceOrRecreate"))
		own := podRecommended(t, ns, "web")
		kernelHas(t, pod, "", 480, 128<<20)
		hasOwn(t, undisturbed(t, pod, 0), own)
	})
	t.Run("are given to the new pod after an eviction", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, "pod-level-evict")
		pod := &deploy(t, ns, "web", 1, podLevel)[0]
		watch(t, ns, "web", podLevelVPA("Recreate"))
		now := successor(t, pod, func(p *corev1.Pod) bool { return p.Spec.Resources.Limits.Memory().Value() == 128<<20 })
		kernelHas(t, now, "", 480, 128<<20)
		require.Contains(t, now.Annotations["vpaUpdates"], "pod: cpu request, memory request")
		hasOwn(t, now, podRecommended(t, ns, "web"))
	})
}

// podRecommended waits until a VPA recommends for the pod and for both containers, and returns the target of container app.
func podRecommended(t *testing.T, ns, name string) (app corev1.ResourceList) {
	t.Helper()
	until(t, patience, "recommendation at pod level", func(ctx context.Context) (bool, string) {
		var v vpav1.VerticalPodAutoscaler
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil {
			return false, err.Error()
		}
		r := v.Status.Recommendation
		if r == nil || r.PodRecommendation == nil || len(r.ContainerRecommendations) != 2 {
			return false, fmt.Sprintf("%+v", r)
		}
		app = r.ContainerRecommendations[0].Target
		pod := r.PodRecommendation.Target
		seen := fmt.Sprintf("pod %s and %s, ", pod.Cpu(), pod.Memory())
		for _, c := range r.ContainerRecommendations {
			seen += fmt.Sprintf("%s %s and %s, ", c.ContainerName, c.Target.Cpu(), c.Target.Memory())
		}
		return pod.Cpu().MilliValue() == 120 && pod.Memory().Value() == 64<<20, seen
	})
	return app
}

// hasOwn requires that only the container that had requests of its own has some now.
func hasOwn(t *testing.T, p *corev1.Pod, target corev1.ResourceList) {
	t.Helper()
	for _, c := range p.Spec.Containers {
		t.Logf("container %s requests %s and %s of the pod's %s and %s", c.Name, c.Resources.Requests.Cpu(), c.Resources.Requests.Memory(),
			p.Spec.Resources.Requests.Cpu(), p.Spec.Resources.Requests.Memory())
		if c.Name == "side" {
			require.Empty(t, c.Resources.Requests)
		} else {
			require.Positive(t, target.Cpu().MilliValue())
			require.NotEqual(t, "20m", c.Resources.Requests.Cpu().String())
		}
	}
}
