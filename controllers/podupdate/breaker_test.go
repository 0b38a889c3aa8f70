package podupdate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

func TestReplacementsAreMatchedOneToOne(t *testing.T) {
	owner := target.Key{Namespace: "ns", APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-rs"}
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name, cpu string) *corev1.Pod {
		yes := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-rs", Controller: &yes}}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: amounts(cpu, "1Gi")}}}}}
	}
	const timeout = 10 * time.Minute
	var m Memory
	b := &m.Breaker
	at := begin
	look := func(pods ...*corev1.Pod) int {
		at = at.Add(time.Minute)
		m.Look(pods, at)
		var g facts.Group
		b.AddTo(owner, &g, at)
		return g.Unchanged
	}
	evict := func(p *corev1.Pod) {
		b.Evicted(owner, p, at, timeout)
		m.NoteEvicted(p, at)
	}
	a, c, d := pod("a", "1"), pod("c", "1"), pod("d", "2")

	require.Zero(t, look(a, c))
	evict(a)
	require.True(t, m.IsGone("a", at))
	require.Zero(t, look(a, c), "no replacement yet")
	require.Zero(t, look(c, d), "d has other resources")
	require.False(t, m.IsGone("a", at))
	require.Zero(t, look(c, d, pod("e", "1")), "no eviction waits for e")
	evict(c)
	require.Equal(t, 1, look(d, pod("e", "1"), pod("f", "1"), pod("g", "1")), "one of the two new pods replaces c")
	require.Equal(t, 1, look(d, pod("e", "1"), pod("f", "1"), pod("g", "1")))
	evict(pod("f", "1"))
	at = at.Add(timeout)
	require.Equal(t, 1, look(d, pod("e", "1"), pod("g", "1"), pod("h", "1")), "the replacement of f came too late")
	evict(pod("g", "1"))
	require.Equal(t, 2, look(d, pod("e", "1"), pod("h", "1"), pod("i", "1000m")), "1000m equals 1")
	evict(pod("h", "1"))
	require.Zero(t, look(d, pod("e", "1"), pod("i", "1"), pod("j", "1500m")), "a changed replacement resets the count")
	require.Empty(t, b.of)

	evict(pod("j", "1500m"))
	require.Equal(t, 1, look(d, pod("e", "1"), pod("i", "1"), pod("k", "1500m")))
	require.Zero(t, look(d, pod("e", "1"), pod("i", "1"), pod("k", "1500m"), pod("l", "2")), "a pod that nobody evicted came back changed: the cause is gone")
	require.Empty(t, b.of)

	for i := range 3 * maxAwaited {
		evict(pod(fmt.Sprint("m", i), "1"))
	}
	require.Len(t, b.of[owner].awaited, maxAwaited)
	at = at.Add(absentTime)
	look()
	require.Empty(t, b.of)
}

// A resize that a node could not carry out is in the spec already, so a successor with that spec
// did get new resources.
func TestEvictedPodHadTheResourcesItsNodeAllocated(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: amounts("2", "2Gi")}}},
		Resources:  &corev1.ResourceRequirements{Requests: amounts("2", "2Gi")}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: &corev1.ResourceRequirements{Requests: amounts("1", "2Gi")}}}
	p.Status.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "2Gi")}
	had, asks := resourcesNow(p), resourcesAsked(p)
	require.False(t, sameResources(had, asks))
	require.Equal(t, amounts("1", "2Gi"), had["app"].Requests)
	require.Equal(t, amounts("1", "2Gi"), had[""].Requests)
	p.Status = corev1.PodStatus{}
	require.True(t, sameResources(resourcesNow(p), asks))
	delete(asks, "app")
	require.False(t, sameResources(resourcesNow(p), asks))
}
