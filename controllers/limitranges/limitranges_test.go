package limitranges

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestOnceReadsEachNamespaceOnce(t *testing.T) {
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
	once := &Once{Reader: reader}
	_, err := once.Of(t.Context(), "a")
	require.ErrorIs(t, err, failing)
	fails = false
	for range 3 {
		limits, err := once.Of(t.Context(), "a")
		require.NoError(t, err)
		require.NotNil(t, limits)
		limits, err = once.Of(t.Context(), "none")
		require.NoError(t, err)
		require.Nil(t, limits)
	}
	require.Equal(t, 3, reader.lists, "a failed one, and one of each namespace")
}
