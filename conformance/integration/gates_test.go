package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// whatIsBehindGatesFollowsTheVPA: OOM parameters of the VPA (AEP-8026), pod-level recommendations
// (AEP-7571), and memory per CPU (AEP-8459). Usage comes from checkpoints, so the expected values
// are exact.
func whatIsBehindGatesFollowsTheVPA(t *testing.T) {
	ns := namespace(t, "rec-gates")
	ooms := []string{"default", "ratio", "neutral", "evicted"}
	for _, name := range ooms {
		create(t, unused(ns, name, "app"))
	}
	whole := unused(ns, "whole", "app", "side")
	whole.Spec.Template.Spec.Resources = &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("3000Mi")}}
	create(t, whole, unused(ns, "parts", "app", "side"))
	of := func(name, target, policy string) *unstructured.Unstructured {
		v := object(ns, name, "updatePolicy: {updateMode: 'Off'}, resourcePolicy: "+policy)
		require.NoError(t, unstructured.SetNestedField(v.Object, target, "spec", "targetRef", "name"))
		return v
	}
	create(t, of("default", "default", "{}"), of("evicted", "evicted", "{}"),
		of("ratio", "ratio", `{containerPolicies: [{containerName: app, oomBumpUpRatio: "1.5"}]}`),
		of("neutral", "neutral", `{containerPolicies: [{containerName: app, oomBumpUpRatio: "1", oomMinBumpUp: "0"}]}`),
		of("whole", "whole", "{}"), of("capped", "whole", "{podPolicies: {maxAllowed: {cpu: 600m, memory: 1Gi}}}"),
		of("parts", "parts", "{}"))
	for name, policy := range memoryPerCPUs {
		create(t, of(name, "parts", "{containerPolicies: [{containerName: app, "+policy+"}]}"))
	}
	app, side := harness.Days(2, 400, 800<<20), harness.Days(2, 150, 300<<20)
	for _, name := range slices.Concat([]string{"whole", "capped", "parts"}, slices.Collect(maps.Keys(memoryPerCPUs))) {
		create(t, harness.Checkpoint(ns, name, "app", app), harness.Checkpoint(ns, name, "side", side))
	}
	run(t, ns, 6)
	r := startRecommender(t, ns, upstreamsStart, "--feature-gates=PerVPAConfig=true,PodLevelResources=true,MemoryPerCPURatio=true")
	appMilli, appBytes := asHistory(t, app)
	sideMilli, sideBytes := asHistory(t, side)

	t.Run("pod level", func(t *testing.T) {
		for _, name := range []string{"whole", "parts"} {
			got := targets(t, ns, name, 2)
			require.Equal(t, []int64{appMilli, appBytes}, []int64{milliOf(got["app"]), bytesOf(got["app"])})
			require.Equal(t, []int64{sideMilli, sideBytes}, []int64{milliOf(got["side"]), bytesOf(got["side"])})
		}
		all := status(t, ns, "whole").Recommendation
		require.NotNil(t, all.PodRecommendation)
		require.Equal(t, appMilli+sideMilli, milliOf(all.PodRecommendation.Target))
		require.Equal(t, appBytes+sideBytes, bytesOf(all.PodRecommendation.Target))
		lower, upper := int64(0), int64(0)
		for _, c := range all.ContainerRecommendations {
			lower, upper = lower+bytesOf(c.LowerBound), upper+bytesOf(c.UpperBound)
		}
		require.Equal(t, lower, bytesOf(all.PodRecommendation.LowerBound))
		require.Equal(t, upper, bytesOf(all.PodRecommendation.UpperBound))
		require.Nil(t, status(t, ns, "parts").Recommendation.PodRecommendation, "its pods have no requests of their own")

		capped := targets(t, ns, "capped", 2)
		pod := status(t, ns, "capped").Recommendation.PodRecommendation
		require.NotNil(t, pod)
		require.Equal(t, "600m", pod.Target.Cpu().String())
		require.Equal(t, "1Gi", pod.Target.Memory().String())
		require.Equal(t, appMilli+sideMilli, milliOf(pod.UncappedTarget))
		require.InDelta(t, 600, milliOf(capped["app"])+milliOf(capped["side"]), 2, "rounded down")
		require.InDelta(t, 600*appMilli/(appMilli+sideMilli), milliOf(capped["app"]), 1, "in proportion")
		require.InDelta(t, 1<<30, bytesOf(capped["app"])+bytesOf(capped["side"]), 2)
	})

	t.Run("memory per CPU", func(t *testing.T) {
		configurationsOfMemoryPerCPU(t, ns, appMilli, appBytes)
		require.Equal(t, sideBytes, bytesOf(targets(t, ns, "cpu-heavy", 2)["side"]), "its policy says nothing")
	})

	t.Run("OOM-killed containers", func(t *testing.T) {
		const least = 250 << 20
		for _, name := range ooms {
			require.Equal(t, int64(least), bytesOf(targets(t, ns, name, 1)["app"]), name)
		}
		r.cycles(t, 1) // by then somebody looks for OOMs
		for _, name := range ooms[:3] {
			killed(t, ns, name)
		}
		evict(t, ns, "evicted")
		const outcomes = `celvpa_recommender_oom_samples_total{outcome="%s"}`
		r.becomes(t, fmt.Sprintf(outcomes, "accepted"), 3)
		r.becomes(t, fmt.Sprintf(outcomes, "disabled"), 1)
		wants := map[string]int64{"default": targetFor(1200 << 20), "ratio": targetFor(1500 << 20), "neutral": least, "evicted": targetFor(1200 << 20)}
		for name, want := range wants { // on a busy machine a status is written some cycles later
			hang.Eventually(t, "the OOM kill to count for "+name, func(ctx context.Context) (bool, error) { return memoryTarget(ctx, ns, name) == want, nil })
		}
		require.NotEqual(t, targetFor(1200<<20), targetFor(1500<<20))
		r.rests(t, 2) // nothing is written without need
		for name, want := range wants {
			require.Equal(t, want, bytesOf(targets(t, ns, name, 1)["app"]), "%s: none is counted twice", name)
		}
	})
}

// memoryPerCPUs are policies of a container, by the VPA that has them.
var memoryPerCPUs = map[string]string{
	"cpu-heavy":     "memoryPerCPU: 4Gi",
	"memory-heavy":  "memoryPerCPU: 512Mi",
	"memory-capped": "memoryPerCPU: 4Gi, maxAllowed: {memory: 1Gi}",
}

// configurationsOfMemoryPerCPU compares what memoryPerCPUs recommend for the same usage: the resource that
// is short is raised, and bounds count more than the ratio (AEP-8459, examples 1 to 3).
func configurationsOfMemoryPerCPU(t *testing.T, ns string, milli, bytes int64) {
	t.Helper()
	const gib = 1 << 30
	raised := targets(t, ns, "cpu-heavy", 2)["app"]
	require.Less(t, bytes, milli*4*gib/1000)
	require.Equal(t, []int64{milli, milli * 4 * gib / 1000}, []int64{milliOf(raised), bytesOf(raised)})

	raised = targets(t, ns, "memory-heavy", 2)["app"]
	const half = gib / 2
	enough := (bytes*1000 + half - 1) / half
	require.Less(t, milli, enough)
	require.Equal(t, []int64{enough, enough * half / 1000}, []int64{milliOf(raised), bytesOf(raised)})

	capped := targets(t, ns, "memory-capped", 2)["app"]
	require.Equal(t, []int64{milli, gib}, []int64{milliOf(capped), bytesOf(capped)})
	for _, c := range status(t, ns, "memory-capped").Recommendation.ContainerRecommendations {
		if c.ContainerName == "app" {
			require.Equal(t, milli*4*gib/1000, bytesOf(c.UncappedTarget))
		}
	}
}

// killed writes the pod status that a kubelet writes after an OOM kill: the container runs again,
// and its last state is OOMKilled.
func killed(t *testing.T, ns, app string) {
	t.Helper()
	change := func(status corev1.ContainerStatus) {
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			pod := podOf(t, ns, app)
			status.Name, status.Image, status.ImageID = "app", pod.Spec.Containers[0].Image, "sha256:1"
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
			return cluster.Status().Update(t.Context(), pod)
		}))
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	change(corev1.ContainerStatus{State: runs})
	change(corev1.ContainerStatus{State: runs, RestartCount: 1, LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: now, FinishedAt: now}}})
}

// evict creates the event of a kubelet that evicts a pod under memory pressure.
func evict(t *testing.T, ns, app string) {
	t.Helper()
	pod := podOf(t, ns, app)
	now := metav1.Now()
	create(t, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod.Name + ".evicted", Annotations: map[string]string{
			"offending_containers": "app", "offending_containers_usage": "1000Mi", "starved_resource": "memory"}},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: pod.Name, UID: pod.UID},
		Reason:         "Evicted", Type: corev1.EventTypeWarning, Message: "The node was low on resource: memory.",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
}

// podOf is the only pod of a Deployment.
func podOf(t *testing.T, ns, app string) (out *corev1.Pod) {
	t.Helper()
	hang.Eventually(t, "a pod of "+app, func(context.Context) (bool, error) {
		for _, p := range pods(t, ns) {
			if p.Labels["app"] == app {
				out = p.DeepCopy()
			}
		}
		return out != nil, nil
	})
	return out
}
