package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func namespace(t *testing.T, name string) string {
	t.Helper()
	require.NoError(t, cluster.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	return name
}

// steady is a Deployment whose pods always use 400m and 300Mi: the middle of a histogram bucket, so
// that the recommendation is exact although usage is measured.
func steady(ns, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("200m"), "memory": resource.MustParse("128Mi")},
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					"usage/period-seconds": "60",
					"app.usage/cpu-low":    "400m", "app.usage/cpu-high": "400m",
					"app.usage/memory-low": "300Mi", "app.usage/memory-high": "300Mi",
				}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10", Resources: resources}}},
			},
		},
	}
}

// The recommendation for that usage: the bucket's upper edge plus 15%.
var (
	steadyCPU    = resource.MustParse("476m")
	steadyMemory = resource.MustParse("380258472")
)

func vpa(ns, name string, mode vpav1.UpdateMode) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	v.Spec.TargetRef = crossVersion("apps/v1", "Deployment", name)
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
	return v
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		require.NoError(t, cluster.Create(t.Context(), o))
	}
}

func pods(t *testing.T, ns string) map[types.UID]corev1.Pod {
	t.Helper()
	var list corev1.PodList
	require.NoError(t, cluster.List(t.Context(), &list, client.InNamespace(ns)))
	out := map[types.UID]corev1.Pod{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			out[p.UID] = p
		}
	}
	return out
}

// running waits until all pods of a namespace run, and returns them.
func running(t *testing.T, ns string, count int) map[types.UID]corev1.Pod {
	t.Helper()
	hang.Eventually(t, fmt.Sprintf("%d running pods in %s", count, ns), func(context.Context) (bool, error) {
		n := 0
		for _, p := range pods(t, ns) {
			if p.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		return n == count, nil
	})
	return pods(t, ns)
}

// recommended waits until a VPA has the steady recommendation, and returns it.
func recommended(t *testing.T, ns, name string) *vpav1.VerticalPodAutoscaler {
	t.Helper()
	v := &vpav1.VerticalPodAutoscaler{}
	hang.Eventually(t, "a recommendation from real usage for "+ns+"/"+name, func(ctx context.Context) (bool, error) {
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, v); err != nil {
			return false, err
		}
		rec := v.Status.Recommendation
		return rec != nil && len(rec.ContainerRecommendations) == 1 && rec.ContainerRecommendations[0].Target.Cpu().Cmp(steadyCPU) == 0, nil
	})
	return v
}

func condition(v *vpav1.VerticalPodAutoscaler, t vpav1.VerticalPodAutoscalerConditionType) *vpav1.VerticalPodAutoscalerCondition {
	for i := range v.Status.Conditions {
		if v.Status.Conditions[i].Type == t {
			return &v.Status.Conditions[i]
		}
	}
	return nil
}

func requireSteady(t *testing.T, list corev1.ResourceList) {
	t.Helper()
	require.Equal(t, steadyCPU.String(), list.Cpu().String())
	require.Equal(t, steadyMemory.String(), list.Memory().String())
}

// fromUsageToAResizedPod is the whole path in mode InPlaceOrRecreate.
func fromUsageToAResizedPod(t *testing.T) {
	ns := namespace(t, "it-path")
	create(t, steady(ns, "web", 2))
	before := running(t, ns, 2)
	create(t, vpa(ns, "web", vpav1.UpdateModeInPlaceOrRecreate))

	v := recommended(t, ns, "web")
	rec := v.Status.Recommendation.ContainerRecommendations[0]
	require.Equal(t, "app", rec.ContainerName)
	requireSteady(t, rec.Target)
	requireSteady(t, rec.UncappedTarget)
	require.Equal(t, corev1.ConditionTrue, condition(v, vpav1.RecommendationProvided).Status)
	require.Equal(t, "default@1.0.0", condition(v, vpav1.RulesApplied).Reason)
	require.Regexp(t, "^digest [0-9a-f]{12}$", condition(v, vpav1.RulesApplied).Message)
	require.Nil(t, condition(v, vpav1.NoPodsMatched))
	require.Equal(t, v.Generation, *v.Status.ObservedGeneration)

	hang.Eventually(t, "both pods resized and acknowledged", func(context.Context) (bool, error) {
		for _, p := range pods(t, ns) {
			status := p.Status.ContainerStatuses
			if len(status) != 1 || status[0].Resources == nil || status[0].Resources.Requests.Cpu().Cmp(steadyCPU) != 0 {
				return false, nil
			}
		}
		return true, nil
	})
	after := pods(t, ns)
	require.Len(t, after, 2)
	for uid, p := range after {
		require.Contains(t, before, uid, "pod %s was replaced, not resized", p.Name)
		c := p.Spec.Containers[0].Resources
		requireSteady(t, c.Requests)
		require.Equal(t, "952m", c.Limits.Cpu().String(), "the CPU limit stays twice the request")
		require.Equal(t, steadyMemory.String(), c.Limits.Memory().String(), "the memory limit stays equal to the request")
		require.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
		hang.Eventually(t, "the mark of the resize", func(ctx context.Context) (bool, error) {
			var now corev1.Pod
			err := cluster.Get(ctx, client.ObjectKeyFromObject(&p), &now)
			return now.Annotations["vpaInPlaceUpdated"] == "true", err
		})
	}
	requireEvent(t, ns, "InPlaceResizedByVPA", "update/resize")

	require.NoError(t, cluster.Patch(t.Context(), steady(ns, "web", 2), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))))
	for uid, p := range running(t, ns, 3) {
		if _, old := before[uid]; old {
			continue
		}
		c := p.Spec.Containers[0].Resources
		requireSteady(t, c.Requests)
		require.Equal(t, "952m", c.Limits.Cpu().String())
		require.Equal(t, "Pod resources updated by web: container 0: cpu request, memory request, cpu limit, memory limit", p.Annotations["vpaUpdates"])
		require.Equal(t, "app", p.Annotations["vpaObservedContainers"])
	}
}

// recreateEvicts: pods are replaced, and replacements have the recommendation.
func recreateEvicts(t *testing.T) {
	ns := namespace(t, "it-recreate")
	create(t, steady(ns, "web", 2))
	before := running(t, ns, 2)
	create(t, vpa(ns, "web", vpav1.UpdateModeRecreate))
	recommended(t, ns, "web")
	// The first eviction may happen before there is usage, with the minimum as target; the next one
	// brings the recommendation for the usage.
	hang.Eventually(t, "both pods replaced by pods of the recommended size", func(context.Context) (bool, error) {
		now := pods(t, ns)
		for uid, p := range now {
			if _, old := before[uid]; old || p.Spec.Containers[0].Resources.Requests.Cpu().Cmp(steadyCPU) != 0 {
				return false, nil
			}
		}
		return len(now) == 2, nil
	})
	for _, p := range running(t, ns, 2) {
		requireSteady(t, p.Spec.Containers[0].Resources.Requests)
	}
	requireEvent(t, ns, "EvictedByVPA", "update/evict")
	requireEvent(t, ns, "EvictedPod", "update/evict")
}

// offInitialAndLonelyPodsAreLeftAlone watches three workloads until Recreate has replaced the pods
// of a fourth.
func offInitialAndLonelyPodsAreLeftAlone(t *testing.T) {
	ns := namespace(t, "it-alone")
	create(t, steady(ns, "off", 2), steady(ns, "initial", 2), steady(ns, "lonely", 1), steady(ns, "busy", 2))
	before := running(t, ns, 7)
	create(t, vpa(ns, "off", vpav1.UpdateModeOff), vpa(ns, "initial", vpav1.UpdateModeInitial),
		vpa(ns, "lonely", vpav1.UpdateModeRecreate), vpa(ns, "busy", vpav1.UpdateModeRecreate))
	for _, name := range []string{"off", "initial", "lonely", "busy"} {
		recommended(t, ns, name)
	}
	hang.Eventually(t, "the busy pods replaced", func(context.Context) (bool, error) {
		for uid, p := range pods(t, ns) {
			if _, old := before[uid]; old && p.Labels["app"] == "busy" {
				return false, nil
			}
		}
		return true, nil
	})
	now := pods(t, ns)
	for uid, p := range before {
		if p.Labels["app"] != "busy" {
			require.Contains(t, now, uid, "pod %s was replaced", p.Name)
			require.Equal(t, "100m", now[uid].Spec.Containers[0].Resources.Requests.Cpu().String(), "pod %s was resized", p.Name)
		}
	}

	scaleUp := []byte(`{"spec":{"replicas":3}}`)
	for _, name := range []string{"off", "initial"} {
		require.NoError(t, cluster.Patch(t.Context(), steady(ns, name, 2), client.RawPatch(types.MergePatchType, scaleUp)))
	}
	for uid, p := range running(t, ns, 9) {
		if _, old := before[uid]; old {
			continue
		}
		switch p.Labels["app"] {
		case "off":
			require.Equal(t, "100m", p.Spec.Containers[0].Resources.Requests.Cpu().String(), "Off changes no new pods")
			require.NotContains(t, p.Annotations, "vpaObservedContainers")
		case "initial":
			requireSteady(t, p.Spec.Containers[0].Resources.Requests)
		}
	}
}

// aRefusedResizeBecomesAnEviction: the recommendation exceeds every node, so the API server refuses
// the resize.
func aRefusedResizeBecomesAnEviction(t *testing.T) {
	ns := namespace(t, "it-refused")
	create(t, steady(ns, "web", 2))
	before := running(t, ns, 2)
	v := vpa(ns, "web", vpav1.UpdateModeInPlaceOrRecreate)
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{
		ContainerName: "app", MinAllowed: corev1.ResourceList{"cpu": resource.MustParse("40")},
	}}}
	create(t, v)
	hang.Eventually(t, "a pod evicted", func(context.Context) (bool, error) {
		now := pods(t, ns)
		for uid := range before {
			if _, still := now[uid]; !still {
				return true, nil
			}
		}
		return false, nil
	})
	requireEvent(t, ns, "EvictedByVPA", "update/resize-refused")
	// One of two pods is replaced by one that fits no node; while it is Pending, the other may not
	// be disrupted.
	old := 0
	for uid := range pods(t, ns) {
		if _, known := before[uid]; known {
			old++
		}
	}
	require.Equal(t, 1, old, "the budget allows one of two pods")
}

// requireEvent waits for an event of an updater with a rule. An eviction whose answer came too late for its cycle is reported as such.
func requireEvent(t *testing.T, ns, reason, rule string) {
	t.Helper()
	reasons := []string{reason}
	if strings.HasPrefix(reason, "Evicted") {
		reasons = append(reasons, "EvictionNotAnswered")
	}
	hang.Eventually(t, "event "+reason+" with rule "+rule, func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		if err := cluster.List(ctx, &events, client.InNamespace(ns)); err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if slices.Contains(reasons, e.Reason) && e.ReportingController == "vpa-updater" && containsText(e.Message, rule) {
				return true, nil
			}
		}
		return false, nil
	})
}

// metricsAndHealthAreServed reads the endpoints of the running process.
func metricsAndHealthAreServed(t *testing.T) {
	get := func(path string) string {
		text, _ := harness.Get(t.Context(), "http://"+celvpa.Address+path)
		return text
	}
	for _, path := range []string{"/health-check", "/healthz", "/readyz"} {
		hang.Eventually(t, path, func(context.Context) (bool, error) { return get(path) == "OK", nil }) // a cycle may take its time
	}
	hang.Eventually(t, "metrics of a first cycle", func(context.Context) (bool, error) {
		metrics := get("/metrics")
		for _, name := range []string{
			`vpa_recommender_execution_latency_seconds_count{step="total"}`, `vpa_updater_execution_latency_seconds_count{step="total"}`,
			`vpa_recommender_metric_server_responses{client_name="default-metrics-client",is_error="false"}`, "celvpa_rules_info{",
		} {
			if !containsText(metrics, name) {
				return false, nil
			}
		}
		return true, nil
	})
}
