package limitranges

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fakesource "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/facts"
)

// counted counts the lists of a reader.
type counted struct {
	client.Reader
	lists int
}

func (c *counted) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	c.lists++
	return c.Reader.List(ctx, into, opts...)
}

func maxCPU(namespace, name, cpu string) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}
}

func TestCacheFoldsLimitRangesAgainOnlyAfterAChange(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("LimitRange"), meta.RESTScopeNamespace)
	source := fakesource.NewFakeControllerSource()
	source.Add(maxCPU("a", "one", "2"))
	source.Add(maxCPU("b", "one", "8"))
	objects, err := cache.New(&rest.Config{Host: "http://127.0.0.1:1"}, cache.Options{
		HTTPClient: http.DefaultClient, Scheme: scheme, Mapper: mapper,
		NewInformer: func(_ toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(source, kind, resync, indexers)
		},
	})
	require.NoError(t, err)
	reader := &counted{Reader: objects}
	c := &Cache{Reader: reader}
	require.NoError(t, c.Follow(t.Context(), objects))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- objects.Start(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	require.True(t, objects.WaitForCacheSync(ctx))

	of := func(namespace string) *facts.LimitRanges {
		limits, err := c.Of(ctx, namespace)
		require.NoError(t, err)
		return limits
	}
	want := func(namespace string, list ...*corev1.LimitRange) {
		t.Helper()
		var items []corev1.LimitRange
		for _, limitRange := range list {
			items = append(items, *limitRange)
		}
		hang.Until(t, func() bool { return assert.ObjectsAreEqual(facts.FoldLimitRanges(items), of(namespace)) }, namespace)
	}
	want("a", maxCPU("a", "one", "2"))
	source.Modify(maxCPU("a", "one", "3"))
	want("a", maxCPU("a", "one", "3"))
	source.Add(maxCPU("a", "two", "1"))
	want("a", maxCPU("a", "one", "3"), maxCPU("a", "two", "1"))

	want("b", maxCPU("b", "one", "8"))
	before := reader.lists
	require.Same(t, of("b"), of("b"))
	require.Equal(t, before, reader.lists, "nothing has changed")

	source.Delete(maxCPU("a", "one", "3"))
	source.Delete(maxCPU("a", "two", "1"))
	hang.Until(t, func() bool { return of("a") == nil })
	source.Add(maxCPU("a", "one", "2"))
	want("a", maxCPU("a", "one", "2"))
	require.Nil(t, of("none"))
}

func TestAnErrorIsNotRemembered(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	failing := errors.New("no answer")
	fails := true
	objects := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(maxCPU("a", "one", "2")).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if fails {
				return failing
			}
			return c.List(ctx, into, opts...)
		},
	})
	reader := &counted{Reader: objects}
	c := &Cache{Reader: reader}
	_, err := c.Of(t.Context(), "a")
	require.ErrorIs(t, err, failing)
	fails = false
	for range 3 {
		limits, err := c.Of(t.Context(), "a")
		require.NoError(t, err)
		require.NotNil(t, limits)
		limits, err = c.Of(t.Context(), "none")
		require.NoError(t, err)
		require.Nil(t, limits)
	}
	require.Equal(t, 3, reader.lists, "a failed one, and one of each namespace")
}
