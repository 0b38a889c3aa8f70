package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

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
