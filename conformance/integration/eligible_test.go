package integration

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// whichPodsWithinTheirRange are updated nevertheless: old pods off their target, and pods that were
// OOM-killed recently, soon after their start (UPSTREAM.md §5.3, AEP-8026).
func whichPodsWithinTheirRange(t *testing.T) {
	ns := namespace(t, "up-range")
	within := func(cpu, memory string) string {
		return "containerRecommendations: [{containerName: a, target: {cpu: " + cpu + ", memory: " + memory + "}, lowerBound: {cpu: 10m, memory: 10Mi}, upperBound: {cpu: 2, memory: 2Gi}}]"
	}
	started := func(ago time.Duration) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) { s.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-ago))) }
	}
	killed := func(lasted, ago time.Duration) func(*corev1.PodStatus) {
		end := time.Now().Add(-ago)
		return func(s *corev1.PodStatus) {
			s.ContainerStatuses[0].RestartCount = 1
			s.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "OOMKilled", StartedAt: metav1.NewTime(end.Add(-lasted)), FinishedAt: metav1.NewTime(end)}
		}
	}
	const inPlace = "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}"
	const sidecar = "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 100Mi}}}]"
	all := map[string]struct {
		pod, spec, recommendation string
		status                    func(*corev1.PodStatus)
		becomes                   string // requests; empty = it stays as it is
	}{
		"young":       {recommendation: within("200m", "200Mi")},
		"aged":        {recommendation: within("200m", "200Mi"), status: started(13 * time.Hour), becomes: "200m/- 200Mi/-"},
		"close":       {recommendation: within("104m", "104Mi"), status: started(13 * time.Hour)},
		"killed":      {recommendation: within("200m", "200Mi"), status: killed(time.Minute, time.Minute), becomes: "200m/- 200Mi/-"},
		"equal":       {recommendation: within("100m", "100Mi"), status: killed(time.Minute, time.Minute)},
		"patient":     {spec: "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1, evictAfterOOMSeconds: 30}", recommendation: within("200m", "200Mi"), status: killed(time.Minute, 0)},
		"impatient":   {spec: "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1, evictAfterOOMSeconds: 3600}", recommendation: within("200m", "200Mi"), status: killed(30*time.Minute, 30*time.Minute), becomes: "200m/- 200Mi/-"},
		"lasting":     {recommendation: within("200m", "200Mi"), status: killed(time.Hour, time.Minute)},
		"longago":     {recommendation: within("200m", "200Mi"), status: killed(time.Minute, time.Hour)},
		"required":    {spec: "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1, evictionRequirements: [{resources: [cpu, memory], changeRequirement: TargetLowerThanRequests}]}", recommendation: target("200m", "200Mi")},
		"unrequired":  {spec: "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1, evictionRequirements: [{resources: [cpu, memory], changeRequirement: TargetHigherThanRequests}]}", recommendation: target("200m", "200Mi"), becomes: "200m/- 200Mi/-"},
		"uncontained": {pod: sidecar, recommendation: "containerRecommendations: [" + targetOf("b", "200m", "200Mi") + "]"},
	}
	before := map[string]map[types.UID]corev1.Pod{}
	for app, c := range all {
		if c.pod == "" {
			c.pod = small
		}
		create(t, deployment(t, ns, app, 1, c.pod))
	}
	for app, c := range all {
		before[app] = up(t, ns, app, 1)
		for _, p := range before[app] {
			if c.pod == sidecar {
				annotate(t, &p, "vpaObservedContainers", "a")
			}
			if c.status != nil {
				c.status(&p.Status)
				require.NoError(t, cluster.Status().Update(t.Context(), &p))
			}
		}
		if c.spec == "" {
			c.spec = inPlace
		}
		watchedOver(t, ns, app, c.spec, c.recommendation)
	}
	u := startUpdater(t, ns)
	for app, c := range all {
		if c.becomes != "" {
			become(t, ns, app, 1, c.becomes)
		}
	}
	u.cycles(1)
	for app, c := range all {
		for _, p := range same(t, ns, app, before[app]) {
			if c.becomes == "" {
				require.Equal(t, "100m/- 100Mi/-", sizesOf(&p)[0], app)
			}
		}
	}
	require.Zero(t, u.requests.of("eviction", ""))
}

// theFirstPodOfACustomKindIsChanged although the VPA is older than its target, whose scale could
// not be read at first. The target owns one pod, a ReplicaSet of the target another.
func theFirstPodOfACustomKindIsChanged(t *testing.T) {
	ns := namespace(t, "it-first")
	crd := rolloutCRD()
	crd.Name = "mills.wind.example.com"
	crd.Spec.Group = "wind.example.com"
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "mills", Singular: "mill", Kind: "Mill"}
	create(t, crd)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), crd)) })
	// A review waits for two seconds for what an API server says of a kind that it meets for the first time. A busy one may say
	// nothing until then, and so there are several to try.
	direct, above := []string{"direct-1", "direct-2", "direct-3", "direct-4", "direct-5"}, []string{"above-1", "above-2", "above-3", "above-4", "above-5"}
	for _, name := range slices.Concat(direct, above) {
		v := vpa(ns, name, vpav1.UpdateModeInitial)
		v.Spec.TargetRef = crossVersion("wind.example.com/v1", "Mill", name)
		v.Spec.Recommenders = []*vpav1.VerticalPodAutoscalerRecommenderSelector{{Name: "nobody"}} // what is recommended is said here
		create(t, v)
		v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{
			ContainerName: "app", Target: corev1.ResourceList{"cpu": steadyCPU, "memory": steadyMemory}}}}
		require.NoError(t, cluster.Status().Update(t.Context(), v))
	}
	create(t, object(ns, "last", `updatePolicy: {updateMode: Initial}`))
	ear := newListener(t)
	hang.Eventually(t, "the webhook to know of the last VPA, and so of those before", func(ctx context.Context) (bool, error) {
		err := ear.Create(ctx, object(ns, "probe", ""), client.DryRunAll)
		return len(ear.warnings()) > 0, err
	})

	mill := func(name string) metav1.OwnerReference {
		m := &unstructured.Unstructured{}
		hang.Eventually(t, "the kind Mill", func(ctx context.Context) (bool, error) {
			m.Object = map[string]any{"apiVersion": "wind.example.com/v1", "kind": "Mill",
				"metadata": map[string]any{"namespace": ns, "name": name}, "spec": map[string]any{"replicas": int64(1)}}
			return cluster.Create(ctx, m) == nil, nil
		})
		require.NoError(t, unstructured.SetNestedMap(m.Object, map[string]any{"replicas": int64(1), "selector": "app=" + name}, "status"))
		require.NoError(t, cluster.Status().Update(t.Context(), m))
		return metav1.OwnerReference{APIVersion: m.GetAPIVersion(), Kind: m.GetKind(), Name: name, UID: m.GetUID(), Controller: ptr.To(true)}
	}
	isChanged := func(p *corev1.Pod, by string) bool {
		requests := p.Spec.Containers[0].Resources.Requests
		return steadyCPU.String()+" "+steadyMemory.String() == requests.Cpu().String()+" "+requests.Memory().String() &&
			strings.Contains(p.Annotations["vpaUpdates"], "Pod resources updated by "+by)
	}

	require.True(t, slices.ContainsFunc(direct, func(name string) bool {
		template := steady(ns, name, 1).Spec.Template
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: template.Labels, OwnerReferences: []metav1.OwnerReference{mill(name)}}, Spec: template.Spec}
		create(t, pod)
		return isChanged(pod, name)
	}), "the first pod of a Mill")

	require.True(t, slices.ContainsFunc(above, func(name string) bool {
		of := steady(ns, name, 1)
		create(t, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: []metav1.OwnerReference{mill(name)}},
			Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](1), Selector: of.Spec.Selector, Template: of.Spec.Template},
		})
		var list corev1.PodList
		hang.Eventually(t, "a pod of the ReplicaSet", func(ctx context.Context) (bool, error) {
			err := cluster.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels{"app": name})
			return len(list.Items) > 0, err
		})
		return isChanged(&list.Items[0], name)
	}), "the first pod of a ReplicaSet of a Mill")
}

// aTargetThatCannotBeReadKeepsItsRecommendation: a Turbine is stored in a version that is no longer
// served, and its conversion webhook does not answer. The old recommendation stays until the
// webhook answers (UPSTREAM.md Appendix B 10).
func aTargetThatCannotBeReadKeepsItsRecommendation(t *testing.T) {
	ns := namespace(t, "rec-lookup")
	crd := rolloutCRD()
	crd.Name = "turbines.power.example.com"
	crd.Spec.Group = "power.example.com"
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "turbines", Singular: "turbine", Kind: "Turbine"}
	create(t, crd)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), crd)) })
	turbine := &unstructured.Unstructured{}
	hang.Eventually(t, "the kind Turbine", func(ctx context.Context) (bool, error) {
		turbine.Object = map[string]any{"apiVersion": "power.example.com/v1", "kind": "Turbine",
			"metadata": map[string]any{"namespace": ns, "name": "web"}, "spec": map[string]any{"replicas": int64(1)}}
		return cluster.Create(ctx, turbine) == nil, nil
	})
	require.NoError(t, unstructured.SetNestedMap(turbine.Object, map[string]any{"replicas": int64(1), "selector": "app=web"}, "status"))
	require.NoError(t, cluster.Status().Update(t.Context(), turbine))
	served := func(conversion *apiextensionsv1.CustomResourceConversion) {
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := cluster.Get(t.Context(), keyOf(crd), crd); err != nil {
				return err
			}
			stored := &crd.Spec.Versions[0]
			stored.Served = false
			other := stored.DeepCopy()
			other.Name, other.Served, other.Storage = "v2", true, false
			crd.Spec.Versions = append(crd.Spec.Versions[:1], *other)
			crd.Spec.Conversion = conversion
			return cluster.Update(t.Context(), crd)
		}))
	}
	served(&apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/convert")}, ConversionReviewVersions: []string{"v1"}}})
	v2 := &unstructured.Unstructured{}
	v2.SetAPIVersion("power.example.com/v2")
	v2.SetKind("Turbine")
	hang.Eventually(t, "the conversion to fail", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "web"}, v2)
		return err != nil && containsText(err.Error(), "conversion webhook"), nil
	})

	// The pods come from a Deployment: owners of pods that a selector finds are not checked.
	create(t, unused(ns, "web", "app"))
	run(t, ns, 1)
	known := harness.Days(2, 500, 600<<20)
	milli, bytes := asHistory(t, known)
	create(t, harness.Checkpoint(ns, "web", "app", known))
	v := vpa(ns, "web", vpav1.UpdateModeOff)
	v.Spec.TargetRef = crossVersion("power.example.com/v2", "Turbine", "web")
	create(t, v)
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{
		ContainerName: "app", Target: corev1.ResourceList{"cpu": steadyCPU, "memory": steadyMemory}}}}
	require.NoError(t, cluster.Status().Update(t.Context(), v))

	r := startRecommender(t, ns)
	hang.Eventually(t, "the failure to be reported", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, keyOf(v), v)
		c := condition(v, vpav1.ConfigUnsupported)
		return c != nil && c.Status == corev1.ConditionTrue && containsText(c.Message, "Cannot read targetRef") && containsText(c.Message, "conversion webhook"), err
	})
	r.rests(t, 3) // the condition is written once
	requireSteady(t, targets(t, ns, "web", 1)["app"])

	served(&apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter})
	hang.Eventually(t, "the recommendation of the history that was kept", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, keyOf(v), v)
		rec := v.Status.Recommendation.ContainerRecommendations
		return condition(v, vpav1.ConfigUnsupported) == nil && len(rec) == 1 && milliOf(rec[0].Target) == milli && bytesOf(rec[0].Target) == bytes, err
	})
}
