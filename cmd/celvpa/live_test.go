package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/recommender"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Each had a limit of its own: --kube-api-qps held for each of them, and for each way to read.
func TestStatusesAndCheckpointsShareOneLimit(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write([]byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"namespace":"ns","name":"web"}}`))
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	require.NoError(t, vpav1.AddToScheme(scheme))
	made, err := ctrl.NewManager(&rest.Config{Host: server.URL}, manager.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper(nil)
			for _, kind := range []string{"VerticalPodAutoscaler", "VerticalPodAutoscalerCheckpoint"} {
				mapper.Add(vpav1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
			}
			return mapper, nil
		}})
	require.NoError(t, err)
	p := &process{manager: made}
	limited := p.limited(&options{qps: 1e-6, burst: 2}, nil)
	live, err := p.clientOf(limited)
	require.NoError(t, err)
	pages, err := recommender.NewPages(limited)
	require.NoError(t, err)
	ctx := hang.Context(t) // the third request would wait for days
	writer, web := recommender.Writer{Live: live}, client.ObjectKey{Namespace: "ns", Name: "web"}
	require.NoError(t, writer.Status(ctx, web, &vpav1.VerticalPodAutoscalerStatus{}))
	require.NoError(t, writer.Checkpoint(ctx, web, "app", vpav1.VerticalPodAutoscalerCheckpointStatus{}))
	require.ErrorContains(t, writer.Status(ctx, web, &vpav1.VerticalPodAutoscalerStatus{}), "client rate limiter Wait")
	require.ErrorContains(t, writer.Checkpoint(ctx, web, "app", vpav1.VerticalPodAutoscalerCheckpointStatus{}), "client rate limiter Wait")
	require.ErrorContains(t, live.List(ctx, &vpav1.VerticalPodAutoscalerCheckpointList{}), "client rate limiter Wait")
	_, err = pages(ctx, "", metav1.ListOptions{})
	require.ErrorContains(t, err, "client rate limiter Wait")
	require.EqualValues(t, 2, asked.Load())
}
