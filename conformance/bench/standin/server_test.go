package standin

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestClientsOfARealAPIServerUseIt: the cache streams and watches, statuses and checkpoints are
// written.
func TestClientsOfARealAPIServerUseIt(t *testing.T) {
	pods := Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Plural: "pods"}
	vpas := Kind{GroupVersionKind: vpav1.GroupVersion.WithKind("VerticalPodAutoscaler"), Plural: vpaPlural}
	server := &Server{Store: NewStore(pods, vpas), Checkpoints: NewCheckpoints()}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	server.Put("pods", &corev1.Pod{ObjectMeta: meta("first"), Spec: corev1.PodSpec{NodeName: "node"}})
	server.Put(vpaPlural, &vpav1.VerticalPodAutoscaler{ObjectMeta: meta("web")})
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close) // after the context ends, and with it all watches
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, vpav1.AddToScheme(scheme))
	config := &rest.Config{Host: listening.URL}
	known, err := cache.New(config, cache.Options{Scheme: scheme})
	require.NoError(t, err)
	ctx := t.Context()
	go func() { _ = known.Start(ctx) }()

	var list corev1.PodList
	_, err = known.GetInformer(ctx, &corev1.Pod{}) // waits for the start
	require.NoError(t, err)
	require.True(t, known.WaitForCacheSync(ctx))
	require.NoError(t, known.List(ctx, &list))
	require.Len(t, list.Items, 1)
	require.Equal(t, "node", list.Items[0].Spec.NodeName)
	server.Put("pods", &corev1.Pod{ObjectMeta: meta("second")})
	server.Delete("pods", &corev1.Pod{ObjectMeta: meta("first")})
	require.Eventually(t, func() bool {
		list = corev1.PodList{}
		return known.List(ctx, &list) == nil && len(list.Items) == 1 && list.Items[0].Name == "second"
	}, 5*time.Minute, 10*time.Millisecond)

	direct, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	patch := func(path string, value any) client.Patch {
		text, err := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": value}})
		require.NoError(t, err)
		return client.RawPatch(types.JSONPatchType, text)
	}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: meta("web")}
	status := vpav1.VerticalPodAutoscalerStatus{Recommendation: &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app"}}}}
	require.NoError(t, direct.Status().Patch(ctx, v, patch("/status", status)))
	require.Eventually(t, func() bool {
		var seen vpav1.VerticalPodAutoscaler
		return known.Get(ctx, client.ObjectKeyFromObject(v), &seen) == nil && seen.Status.Recommendation != nil
	}, 5*time.Minute, 10*time.Millisecond)

	checkpoint := &vpav1.VerticalPodAutoscalerCheckpoint{ObjectMeta: meta("web-app"), Spec: vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: "web", ContainerName: "app"}}
	checkpoint.Status.TotalSamplesCount = 7
	missing := direct.Patch(ctx, checkpoint.DeepCopy(), patch("/status", checkpoint.Status))
	require.True(t, client.IgnoreNotFound(missing) == nil && missing != nil, "%v", missing)
	require.NoError(t, direct.Create(ctx, checkpoint.DeepCopy()))
	checkpoint.Status.TotalSamplesCount = 8
	require.NoError(t, direct.Patch(ctx, checkpoint.DeepCopy(), patch("/status", checkpoint.Status)))
	server.Checkpoints.Put(client.ObjectKey{Namespace: "ns", Name: "web"}, "sidecar", []byte(`{}`))
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(vpav1.GroupVersion.WithKind("VerticalPodAutoscalerCheckpointList"))
	require.NoError(t, direct.List(ctx, page, client.Limit(1)))
	require.Len(t, page.Items, 1)
	count, _, _ := unstructured.NestedInt64(page.Items[0].Object, "status", "totalSamplesCount")
	require.EqualValues(t, 8, count)
	require.NoError(t, direct.List(ctx, page, client.Limit(1), client.Continue(page.GetContinue())))
	require.Equal(t, "web-sidecar", page.Items[0].GetName())
	require.Empty(t, page.GetContinue())
}
