package ondemand

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// watched is a cache that counts how often a watch was asked for.
type watched struct {
	cache.Cache
	client  client.Client
	synced  bool
	watches int
}

func (w *watched) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	w.watches++
	return informer{of: w}, nil
}

func (w *watched) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	return w.client.Get(ctx, key, into)
}

func (w *watched) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return w.client.List(ctx, list)
}

type informer struct {
	cache.Informer
	of *watched
}

func (i informer) HasSynced() bool { return i.of.synced }

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestNamespacesAreWatchedOnceTheyAreAskedFor(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	shop := namespace("shop", map[string]string{"tier": "front"})
	w := &watched{client: fake.NewClientBuilder().WithObjects(shop, namespace("bare", nil)).Build(), synced: true}
	objects := New(w, clock.RealClock{}, log)
	require.Zero(t, w.watches)

	labels, known := objects.NamespaceLabels("shop")
	require.True(t, known)
	require.Equal(t, "front", labels["tier"])
	_, known = objects.NamespaceLabels("bare")
	require.True(t, known, "it has no labels")
	for range 3 {
		_, known = objects.NamespaceLabels("gone")
		require.False(t, known)
	}
	require.Equal(t, 1, w.watches)
	require.Len(t, logged, 1, "it is logged once")
	require.Contains(t, logged[0], `"kind"="Namespace" "name"="/gone" "consequence"="overlays with a namespaceSelector do not apply, and rules do not know its labels"`)

	shop.Labels["tier"] = "batch"
	require.NoError(t, w.client.Update(t.Context(), shop))
	labels, _ = objects.NamespaceLabels("shop")
	require.Equal(t, "batch", labels["tier"], "changed labels count at once")
}

// TestKindsThatCannotBeWatchedAreNotWaitedForAgain, as without permission, and known as soon as they can.
func TestKindsThatCannotBeWatchedAreNotWaitedForAgain(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	w := &watched{client: fake.NewClientBuilder().WithObjects(namespace("shop", nil)).Build()}
	objects := New(w, clock.RealClock{}, log)
	objects.of(corev1.SchemeGroupVersion.WithKind("Namespace"), "").patience = 10 * time.Millisecond
	for range 1000 { // only the first waits
		_, known := objects.NamespaceLabels("shop")
		require.False(t, known)
	}
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], `"objects of a kind are not read: allow this process to list and watch them" "kind"="Namespace"`)
	w.synced = true
	_, known := objects.NamespaceLabels("shop")
	require.True(t, known)
}

func TestNodesAreKnownByNameAndInTotal(t *testing.T) {
	node := func(name, cpu, memory string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}}
	}
	w := &watched{client: fake.NewClientBuilder().WithObjects(node("a", "4", "64Gi"), node("b", "16", "8Gi")).Build()}
	clk := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	objects := New(w, clk, logr.Discard())
	objects.nodes().patience = 0
	require.Zero(t, w.watches)
	_, known := objects.Nodes()
	require.False(t, known, "nodes are not read yet")
	w.synced = true
	require.Equal(t, "a", objects.Node("a").Name)
	require.Nil(t, objects.Node("c"))

	totals := func() facts.NodeTotals {
		out, known := objects.Nodes()
		require.True(t, known)
		return out
	}
	const gi = 1 << 30
	before := facts.NodeTotals{Count: 2, Sum: facts.Amounts{CPU: 20_000, Memory: 72 * gi}, Largest: facts.Amounts{CPU: 16_000, Memory: 64 * gi}}
	require.Equal(t, before, totals())
	require.NoError(t, w.client.Create(t.Context(), node("c", "1", "1Gi")))
	require.Equal(t, before, totals(), "they are added up every ten seconds")
	clk.SetTime(clk.Now().Add(10 * time.Second))
	require.Equal(t, 3, totals().Count)
	require.Equal(t, 1, w.watches)
}

// TestWorkloadsAreKnownByTheirMetadata, if they are of a kind that is watched anyway.
func TestWorkloadsAreKnownByTheirMetadata(t *testing.T) {
	shop := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", Labels: map[string]string{"tier": "front"}, Annotations: map[string]string{"team": "a"}}}
	w := &watched{client: fake.NewClientBuilder().WithObjects(shop).Build(), synced: true}
	objects := New(w, clock.RealClock{}, logr.Discard())
	key := target.Key{Namespace: "web", APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"}
	found := objects.Workload(key)
	require.Equal(t, "front", found.Labels["tier"])
	require.Equal(t, "a", found.Annotations["team"])
	key.Name = "gone"
	require.Nil(t, objects.Workload(key))
	for kind, apiVersion := range map[string]string{"Database": "example.com/v1", "Deployment": "example.com/v1"} {
		require.Nil(t, objects.Workload(target.Key{Namespace: "web", APIVersion: apiVersion, Kind: kind, Name: "shop"}), "custom kinds would need permissions")
	}
	require.Equal(t, 1, w.watches)
}
