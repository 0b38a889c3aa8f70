package slim

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestPodsAreThoseOfTheCacheThemselves(t *testing.T) {
	var pods Pods
	require.Empty(t, pods.List())
	var want []*corev1.Pod
	for _, namespace := range []string{"a", "b"} { // caches of some namespaces have an informer for each
		informer := pods.Informer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		require.NoError(t, informer.GetStore().Add(pod))
		want = append(want, pod)
	}
	others := pods.Informer(&toolscache.ListWatch{}, &vpav1.VerticalPodAutoscaler{}, 0, toolscache.Indexers{})
	require.NoError(t, others.GetStore().Add(&vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}))
	got := pods.List()
	require.Len(t, got, len(want))
	for i := range want {
		require.Same(t, want[i], got[i])
	}
}
