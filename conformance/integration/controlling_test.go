package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

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
