package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/emit"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// upgraded are objects that upstream's CRDs accept. celvpa's rules refuse those with a named
// mistake.
var upgraded = []struct{ name, spec, mistake string }{
	{name: "everything", spec: `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web},
		updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 2, evictAfterOOMSeconds: 600, evictionRequirements: [{resources: [cpu, memory], changeRequirement: TargetHigherThanRequests}]},
		resourcePolicy: {containerPolicies: [{containerName: app, mode: Auto, minAllowed: {cpu: 10m, memory: 64Mi}, maxAllowed: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 1},
		controlledResources: [cpu, memory], controlledValues: RequestsAndLimits, oomBumpUpRatio: "1.2", oomMinBumpUp: 100Mi, memoryAggregationIntervalSeconds: 3600, memoryAggregationIntervalCount: 8,
		startupBoost: {cpu: {type: Quantity, quantity: 500m, durationSeconds: 30}}}, {containerName: '*', mode: 'Off'}]},
		recommenders: [{name: frugal}], startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 0}}}`},
	{name: "odd-spellings", spec: `{targetRef: {kind: Deployment, name: web}, resourcePolicy: {containerPolicies: [{containerName: app,
		minAllowed: {cpu: "0.5e1", memory: 1.0Gi}, maxAllowed: {cpu: "1E3", memory: 34359738368000m, hugepages-2Mi: +2Mi}}]}}`},
	{name: "odd-integers", spec: `{targetRef: {kind: Deployment, name: web}, resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 1, memory: 0}}]}}`},
	{name: "empty", spec: `{targetRef: {kind: Deployment, name: web}, resourcePolicy: {}, recommenders: []}`},
	{name: "two-recommenders", spec: `{targetRef: {kind: Deployment, name: web}, recommenders: [{name: a}, {name: b}]}`, mistake: "spec.recommenders"},
	{name: "two-policies", spec: `{targetRef: {kind: Deployment, name: web}, resourcePolicy: {containerPolicies: [{containerName: app, mode: 'Off'}, {containerName: app}]}}`, mistake: "spec.resourcePolicy.containerPolicies"},
	{name: "empty-update-policy", spec: `{targetRef: {kind: Deployment, name: web}, updatePolicy: {}}`, mistake: "spec.updatePolicy.updateMode"},
	{name: "no-replicas", spec: `{targetRef: {kind: Deployment, name: web}, updatePolicy: {updateMode: 'Off', minReplicas: 0}}`, mistake: "spec.updatePolicy.minReplicas"},
	{name: "off-with-limits", spec: `{targetRef: {kind: Deployment, name: web}, resourcePolicy: {containerPolicies: [{containerName: app, mode: 'Off', controlledValues: RequestsAndLimits}]}}`, mistake: "spec.resourcePolicy.containerPolicies[0].controlledValues"},
	{name: "crossed-bounds", spec: `{targetRef: {kind: Deployment, name: web}, resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 2}, maxAllowed: {cpu: 1}}]}}`, mistake: "spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]"},
}

const upgradedStatus = `{observedGeneration: 1, conditions: [{type: RecommendationProvided, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z", reason: "", message: "", observedGeneration: 1}],
	recommendation: {containerRecommendations: [{containerName: app, target: {cpu: 587m, memory: "548861636"}, lowerBound: {cpu: 50m, memory: 125Mi}, upperBound: {cpu: 1, memory: 1Gi}, uncappedTarget: {cpu: "0.7", memory: "1e9"}}]}}`

const upgradedCheckpoint = `{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscalerCheckpoint, metadata: {name: everything-app}, spec: {vpaObjectName: everything, containerName: app},
	status: {lastUpdateTime: "2026-01-02T03:04:05Z", version: v3, cpuHistogram: {referenceTimestamp: "2026-01-02T00:00:00Z", bucketWeights: {"0": 10000, "17": 3}, totalWeight: 1.5},
	memoryHistogram: {referenceTimestamp: null, bucketWeights: {}, totalWeight: 0}, firstSampleStart: "2026-01-01T00:00:00Z", lastSampleStart: null, totalSamplesCount: 42}}`

// theCRDsReplaceUpstreams: stored objects stay the same byte for byte, and stay editable where
// rules are new.
func theCRDsReplaceUpstreams(t *testing.T) {
	file := upstreamCRDs(t)
	withoutCelvpa(t)
	t.Cleanup(func() { require.NoError(t, cluster.InstallCRDs(context.Background(), false)) })
	deleteCRDs(t)
	require.NoError(t, cluster.ApplyFiles(t.Context(), file))
	for _, name := range []string{crds.VPA, crds.Checkpoint} {
		require.NoError(t, cluster.WaitEstablished(t.Context(), name))
	}
	ns := namespace(t, "it-upgrade")
	stored := storeUpgraded(t, ns)

	t.Run("server-side apply", func(t *testing.T) {
		require.NoError(t, cluster.InstallCRDs(t.Context(), false))
		upgradedWell(t, ns, stored)
	})
	// Back to upstream's, for the second way of replacing them. Going back keeps all objects, too.
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	replaceCRDs(t, text)
	require.Equal(t, stored, contents(t, ns))
	t.Run("replace", func(t *testing.T) {
		book, err := policy.Load(policy.Options{})
		require.NoError(t, err)
		all, err := emit.CRDs(book.Default().Validations(facts.VPAValidate))
		require.NoError(t, err)
		for _, crd := range all {
			text, err := emit.YAML(crd)
			require.NoError(t, err)
			replaceCRDs(t, text)
		}
		upgradedWell(t, ns, stored)
		invalidOnesStayEditable(t, ns)
	})
}

// deleteCRDs deletes upstream's CRDs with all objects. API servers check every 5 s for up to a
// minute whether the objects are gone, and start over after a failure.
func deleteCRDs(t *testing.T) {
	t.Helper()
	for _, name := range []string{crds.VPA, crds.Checkpoint} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, client.IgnoreNotFound(cluster.Delete(t.Context(), crd)))
		hang.Eventually(t, "CRD "+name+" to be gone", func(ctx context.Context) (bool, error) {
			return apierrors.IsNotFound(cluster.Get(ctx, client.ObjectKeyFromObject(crd), crd)), nil
		})
	}
}

// replaceCRDs is kubectl replace.
func replaceCRDs(t *testing.T, text []byte) {
	t.Helper()
	all, err := harness.Decode(text)
	require.NoError(t, err)
	for _, crd := range all {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(crd.GroupVersionKind())
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(crd), live))
		crd.SetResourceVersion(live.GetResourceVersion())
		require.NoError(t, cluster.Update(t.Context(), crd))
	}
}

// storeUpgraded creates all objects, with status, and returns them as stored.
func storeUpgraded(t *testing.T, ns string) map[string]string {
	t.Helper()
	var status map[string]any
	decodeYAML(t, upgradedStatus, &status)
	for _, u := range upgraded {
		var spec map[string]any
		decodeYAML(t, u.spec, &spec)
		v := placed(map[string]any{"spec": spec}, ns, u.name)
		require.NoError(t, cluster.Create(t.Context(), v), u.name)
		v.Object["status"] = runtime.DeepCopyJSON(status)
		require.NoError(t, cluster.Status().Update(t.Context(), v), u.name)
	}
	checkpoint := &unstructured.Unstructured{}
	decodeYAML(t, upgradedCheckpoint, &checkpoint.Object)
	checkpoint.SetNamespace(ns)
	require.NoError(t, cluster.Create(t.Context(), checkpoint))
	out := contents(t, ns)
	require.Len(t, out, len(upgraded)+1)
	require.Contains(t, out["VerticalPodAutoscaler/odd-spellings"], `"0.5e1"`, "nobody rewrites what users wrote")
	require.Contains(t, out["VerticalPodAutoscalerCheckpoint/everything-app"], `"totalSamplesCount":42`)
	return out
}

// decodeYAML decodes one document.
func decodeYAML(t *testing.T, text string, to *map[string]any) {
	t.Helper()
	all, err := harness.Decode([]byte(text))
	require.NoError(t, err)
	*to = all[0].Object
}

// contents is what the API server stores, as JSON by kind and name, without fields that change with
// each write.
func contents(t *testing.T, ns string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, kind := range []string{"VerticalPodAutoscaler", "VerticalPodAutoscalerCheckpoint"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(vpav1.GroupVersion.WithKind(kind + "List"))
		require.NoError(t, cluster.List(t.Context(), list, client.InNamespace(ns)))
		for _, u := range list.Items {
			u.SetManagedFields(nil)
			u.SetResourceVersion("")
			text, err := json.Marshal(u.Object)
			require.NoError(t, err)
			out[kind+"/"+u.GetName()] = string(text)
		}
	}
	return out
}

// upgradedWell waits until the API server validates by celvpa's rules, and checks the CRDs and the
// objects.
func upgradedWell(t *testing.T, ns string, stored map[string]string) {
	t.Helper()
	hang.Eventually(t, "the rules of the schema in force", func(ctx context.Context) (bool, error) {
		err := cluster.Create(ctx, object(ns, "probe", "updatePolicy: {updateMode: 'Off', minReplicas: 0}"), client.DryRunAll)
		return slices.Equal(refusals(err), []string{"vpa-object/min-replicas-positive@spec.updatePolicy.minReplicas"}), nil
	})
	for _, name := range []string{crds.VPA, crds.Checkpoint} {
		require.NoError(t, cluster.WaitEstablished(t.Context(), name))
		var crd apiextensionsv1.CustomResourceDefinition
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: name}, &crd))
		require.Equal(t, []string{"v1"}, crd.Status.StoredVersions)
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.NonStructuralSchema || c.Type == apiextensionsv1.KubernetesAPIApprovalPolicyConformant {
				require.Equal(t, c.Type == apiextensionsv1.KubernetesAPIApprovalPolicyConformant, c.Status == apiextensionsv1.ConditionTrue, "%v", c)
			}
		}
	}
	require.Equal(t, stored, contents(t, ns))
	d, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	require.NoError(t, err)
	_, err = d.ServerResourcesForGroupVersion("autoscaling.k8s.io/v1beta2")
	require.True(t, apierrors.IsNotFound(err), "v1beta2 is not served: %v", err)
	for _, u := range upgraded {
		again := placed(nil, ns, u.name+"-again")
		var spec map[string]any
		decodeYAML(t, u.spec, &spec)
		again.Object["spec"] = spec
		err := cluster.Create(t.Context(), again, client.DryRunAll)
		if u.mistake == "" {
			require.NoError(t, err, u.name)
			continue
		}
		require.True(t, apierrors.IsInvalid(err), "%s: %v", u.name, err)
		require.ErrorContains(t, err, u.mistake)
	}
}

// invalidOnesStayEditable: labels, status, and fields unrelated to the mistake.
func invalidOnesStayEditable(t *testing.T, ns string) {
	t.Helper()
	for _, u := range upgraded {
		v := placed(nil, ns, u.name)
		get := func() { require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(v), v)) }
		get()
		v.SetLabels(map[string]string{"tier": "web"})
		require.NoError(t, cluster.Update(t.Context(), v), u.name)
		require.NoError(t, unstructured.SetNestedField(v.Object, int64(2), "status", "observedGeneration"))
		require.NoError(t, cluster.Status().Update(t.Context(), v), u.name)
		require.NoError(t, unstructured.SetNestedField(v.Object, "other", "spec", "targetRef", "name"))
		require.NoError(t, cluster.Update(t.Context(), v), u.name)
		get()
		require.Equal(t, "web", v.GetLabels()["tier"])
		observed, _, err := unstructured.NestedInt64(v.Object, "status", "observedGeneration")
		require.NoError(t, err)
		require.EqualValues(t, 2, observed)
	}
}

// upstreamCRDs is the file with the CRDs of harness.UpstreamRelease.
func upstreamCRDs(t *testing.T) string {
	t.Helper()
	folder, err := harness.UpstreamManifests(t.Context())
	require.NoError(t, err)
	return filepath.Join(folder, "vpa-v1-crd-gen.yaml")
}
