package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

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
