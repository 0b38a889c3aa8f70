package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// historyOfARealPrometheusIsRecommendedFrom: the first status already reflects days of history.
// There is no other usage, and no checkpoint is written.
func historyOfARealPrometheusIsRecommendedFrom(t *testing.T) {
	ns := namespace(t, "rec-history")
	p, err := harness.StartPrometheus(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	now := time.Now().Truncate(time.Second)
	var cpu, memory, names []harness.DataPoint
	labels := map[string]string{"job": "kubernetes-cadvisor", "namespace": ns, "pod_name": "web-gone", "name": "app"}
	seconds := 0.0
	for at := now.Add(-73 * time.Hour); !at.After(now.Add(-time.Hour)); at = at.Add(2 * time.Minute) {
		seconds += 0.6505 * 120
		cpu, memory = append(cpu, harness.Point(at, seconds, labels)), append(memory, harness.Point(at, 700<<20, labels))
		names = append(names, harness.Point(at, 1, map[string]string{"namespace": ns, "pod": "web-gone", "label_app": "web"}))
	}
	require.NoError(t, p.Write(t.Context(), "cpu_seconds", cpu))
	require.NoError(t, p.Write(t.Context(), "memory_bytes", memory))
	require.NoError(t, p.Write(t.Context(), "kube_pod_labels", names))
	create(t, unused(ns, "web", "app"), vpa(ns, "web", vpav1.UpdateModeOff))
	run(t, ns, 1)

	said := targetsOf(t, ns, "web")
	r := startRecommender(t, ns, "--storage=prometheus", "--prometheus-address="+p.Address, "--history-length=3d", "--history-cpu-metric=cpu_seconds",
		"--history-memory-metric=memory_bytes", "--metric-for-pod-labels=kube_pod_labels[4d]", "--pod-label-prefix=label_", "--pod-namespace-label=namespace", "--pod-name-label=pod")
	target := targets(t, ns, "web", 1)["app"]
	h := model.NewCPUHistogram(24 * time.Hour)
	h.Add(0.65, 1, now)
	require.Equal(t, margin(h.Percentile(0.9)*1000), milliOf(target))
	require.Equal(t, targetFor(700<<20), bytesOf(target))
	upper := status(t, ns, "web").Recommendation.ContainerRecommendations[0].UpperBound
	require.Negative(t, upper.Cpu().Cmp(resource.MustParse("100")), "days of history bound it from above: %s", upper.Cpu())
	r.rests(t, 3)
	for i, line := range said() {
		require.Equal(t, i == 0, line == "none", "there is no other recommendation before it")
		require.True(t, i == 0 || line == target.Cpu().String()+" "+target.Memory().String(), line)
	}
	require.NotContains(t, versions(t, ns), "VerticalPodAutoscalerCheckpoint web-app")
}

// withoutItsPrometheusItStartsAllTheSame, and logs it. It waits for half a minute and stays
// healthy.
func withoutItsPrometheusItStartsAllTheSame(t *testing.T) {
	ns := namespace(t, "rec-nohistory")
	create(t, unused(ns, "web", "app"), vpa(ns, "web", vpav1.UpdateModeOff))
	run(t, ns, 1)
	r := startRecommender(t, ns, "--storage=prometheus", "--prometheus-address=http://127.0.0.1:1")
	hang.Eventually(t, "the start without history", func(ctx context.Context) (bool, error) {
		_, err := harness.Get(ctx, "http://"+r.Address+"/health-check")
		require.NoError(t, err)
		return r.says("history incomplete", "Prometheus is unreachable"), nil
	})
	require.True(t, r.says("Prometheus is not ready", "connection refused"))
	nothingKnown(t, ns, "web", "app")
}

// externalMetricsAreRecommendedFrom an adapter that is registered through the aggregation layer.
func externalMetricsAreRecommendedFrom(t *testing.T) {
	ns := namespace(t, "rec-external")
	d := steady(ns, "web", 2)
	d.Spec.Template.Labels["tier"] = "front"
	web := &appsv1.StatefulSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.StatefulSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}}
	v := vpa(ns, "web", vpav1.UpdateModeOff)
	v.Spec.TargetRef.Kind = "StatefulSet"
	create(t, web, v)
	running(t, ns, 2)
	at := metav1.NewTime(time.Now().Truncate(time.Second))
	serveExternalMetrics(t, ns, at, map[string]string{"container_cpu web-0": "1500m", "container_memory web-0": "1Gi", "container_cpu web-1": "1500m"})
	a := accountOfTheDocs(t, "recommender.md", "recommender-of-external-metrics")
	r := startRecommender(t, ns, "--kubeconfig="+a.kubeconfig(t), "--use-external-metrics", "--external-metrics-cpu-metric=container_cpu", "--external-metrics-memory-metric=container_memory")
	h := model.NewCPUHistogram(24 * time.Hour)
	h.Add(1.5, 1, time.Now())
	want := margin(h.Percentile(0.9) * 1000)
	hang.Eventually(t, "a recommendation from external metrics", func(context.Context) (bool, error) {
		target := targets(t, ns, "web", 1)["app"]
		return milliOf(target) == want && bytesOf(target) == targetFor(1<<30), nil
	})
	require.True(t, r.says("usage incomplete", "1 of 2 queries of external metric container_memory failed; the first was for pod "+ns+"/web-1"))
}
