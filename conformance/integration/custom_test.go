package integration

import (
	"context"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// rolloutCRD is a custom controller kind with a scale subresource, like those of rollout tools.
func rolloutCRD() *apiextensionsv1.CustomResourceDefinition {
	anything := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "rollouts.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "rollouts", Singular: "rollout", Kind: "Rollout"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: anything},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{
						SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: ptr.To(".status.selector")},
				},
			}},
		},
	}
}

// rolledOut creates the Rollout web, and the ReplicaSet web-1 that it owns, with two pods.
func rolledOut(t *testing.T, ns string) {
	t.Helper()
	var owner *unstructured.Unstructured
	hang.Eventually(t, "the kind Rollout", func(ctx context.Context) (bool, error) {
		owner = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Rollout",
			"metadata": map[string]any{"namespace": ns, "name": "web"},
			"spec":     map[string]any{"replicas": int64(2)},
		}}
		return cluster.Create(ctx, owner) == nil, nil
	})
	require.NoError(t, unstructured.SetNestedMap(owner.Object, map[string]any{"replicas": int64(2), "selector": "app=web"}, "status"))
	require.NoError(t, cluster.Status().Update(t.Context(), owner))
	template := steady(ns, "web", 2)
	create(t, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-1", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "example.com/v1", Kind: "Rollout", Name: "web", UID: owner.GetUID(), Controller: ptr.To(true)}}},
		Spec: appsv1.ReplicaSetSpec{Replicas: template.Spec.Replicas, Selector: template.Spec.Selector, Template: template.Spec.Template},
	})
}

// aCustomControllerIsFollowedToItsPods: a Rollout owns a ReplicaSet, which owns the pods. The VPA names the Rollout.
func aCustomControllerIsFollowedToItsPods(t *testing.T) {
	ns := namespace(t, "it-custom")
	create(t, rolloutCRD())
	rolledOut(t, ns)
	before := running(t, ns, 2)
	v := vpa(ns, "web", vpav1.UpdateModeInPlaceOrRecreate)
	v.Spec.TargetRef = crossVersion("example.com/v1", "Rollout", "web")
	below := vpa(ns, "below", vpav1.UpdateModeOff)
	below.Spec.TargetRef = crossVersion("apps/v1", "ReplicaSet", "web-1")
	older := vpa(ns, "older", vpav1.UpdateModeOff)
	older.Spec.TargetRef = crossVersion("example.com/v1alpha1", "Rollout", "web")
	create(t, v, below, older)

	v = recommended(t, ns, "web")
	require.Nil(t, condition(v, vpav1.ConfigUnsupported))
	recommended(t, ns, "older") // the API server has another version of the same kind
	hang.Eventually(t, "the pods resized", func(context.Context) (bool, error) {
		for uid, p := range pods(t, ns) {
			if _, same := before[uid]; !same || p.Spec.Containers[0].Resources.Requests.Cpu().Cmp(steadyCPU) != 0 {
				return false, nil
			}
		}
		return true, nil
	})
	hang.Eventually(t, "the ReplicaSet below to be refused as a target", func(ctx context.Context) (bool, error) {
		var b vpav1.VerticalPodAutoscaler
		err := cluster.Get(ctx, keyOf(below), &b)
		c := condition(&b, vpav1.ConfigUnsupported)
		return c != nil && c.Status == corev1.ConditionTrue && containsText(c.Message, "has a parent controller"), err
	})
	// celvpa plan asks for the scale of an owner that no VPA names.
	apart := namespace(t, "it-customowner")
	rolledOut(t, apart)
	running(t, apart, 2)
	only := vpa(apart, "below", vpav1.UpdateModeRecreate)
	only.Spec.TargetRef = crossVersion("apps/v1", "ReplicaSet", "web-1")
	create(t, only)
	out, err := exec.CommandContext(t.Context(), program, "plan", "--kubeconfig", kubeconfig, "-n", apart, "--explain").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "VerticalPodAutoscaler "+apart+"/below cannot be used: The target apps/v1.ReplicaSet/web-1 has a parent controller")
}
