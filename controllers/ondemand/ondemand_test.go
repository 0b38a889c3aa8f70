package ondemand

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
	namespaces := NewNamespaces(w, log)
	require.Zero(t, w.watches)

	labels, known := namespaces.Labels("shop")
	require.True(t, known)
	require.Equal(t, "front", labels["tier"])
	_, known = namespaces.Labels("bare")
	require.True(t, known, "it has no labels")
	for range 3 {
		_, known = namespaces.Labels("gone")
		require.False(t, known)
	}
	require.Equal(t, 1, w.watches)
	require.Len(t, logged, 1, "it is logged once")
	require.Contains(t, logged[0], `"name"="gone" "consequence"="overlays with a namespaceSelector do not apply"`)

	shop.Labels["tier"] = "batch"
	require.NoError(t, w.client.Update(t.Context(), shop))
	labels, _ = namespaces.Labels("shop")
	require.Equal(t, "batch", labels["tier"], "changed labels count at once")
}

// TestKindsThatCannotBeWatchedAreNotWaitedForAgain, as without permission, and known as soon as they can.
func TestKindsThatCannotBeWatchedAreNotWaitedForAgain(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	w := &watched{client: fake.NewClientBuilder().WithObjects(namespace("shop", nil)).Build()}
	namespaces := NewNamespaces(w, log)
	namespaces.kind.patience = 10 * time.Millisecond
	for range 1000 { // only the first waits
		_, known := namespaces.Labels("shop")
		require.False(t, known)
	}
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], "namespaces are not read: allow this process to list and watch them")
	w.synced = true
	_, known := namespaces.Labels("shop")
	require.True(t, known)
}

func TestNodesAreKnownByName(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	w := &watched{client: fake.NewClientBuilder().WithObjects(node).Build(), synced: true}
	nodes := NewNodes(w, logr.Discard())
	require.Zero(t, w.watches)
	require.Equal(t, "a", nodes.Node("a").Name)
	require.Nil(t, nodes.Node("b"))
	require.Equal(t, 1, w.watches)
}
