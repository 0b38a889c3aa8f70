package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/recommender/usage"
)

// answersSeen records the media types of answers.
type answersSeen struct {
	http.RoundTripper
	mu    sync.Mutex
	types []string
}

func (a *answersSeen) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		a.mu.Lock()
		a.types = append(a.types, response.Header.Get("Content-Type"))
		a.mu.Unlock()
	}
	return response, err
}

// TestMetricsServerIsReadAsProtobuf through the API server.
func TestMetricsServerIsReadAsProtobuf(t *testing.T) {
	began := time.Now().Truncate(time.Second)
	measuredByMetricsServer(t)
	ns := namespace(t, "usage-metrics")
	create(t, steady(ns, "web", 2))
	running(t, ns, 2)
	seen := &answersSeen{}
	config := rest.CopyConfig(cluster.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		seen.RoundTripper = next
		return seen
	})
	source, err := usage.NewMetricsAPI(config, ns)
	require.NoError(t, err)
	var got []model.Sample
	hang.Eventually(t, "usage of both pods", func(ctx context.Context) (bool, error) {
		var err error
		got, err = source.Samples(ctx)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		last := seen.types[len(seen.types)-1]
		return len(got) == 4 && strings.Contains(last, "protobuf"), err
	})
	for i, s := range got {
		require.Equal(t, ns, s.Pod.Namespace)
		require.Equal(t, "app", s.Container)
		require.False(t, s.At.Before(began) || s.At.After(time.Now()), "%s", s.At)
		if s.Resource == model.CPU {
			require.InDelta(t, 400, s.Amount, 350, "sample %d, by the time between two scrapes", i)
		} else {
			require.Equal(t, int64(300<<20), s.Amount)
		}
	}
	config = rest.CopyConfig(cluster.Config)
	config.Impersonate.UserName = "nobody"
	source, err = usage.NewMetricsAPI(config, "")
	require.NoError(t, err)
	_, err = source.Samples(t.Context())
	require.ErrorContains(t, err, "allow this process to get and list pods in API group metrics.k8s.io")
}

// measuredByMetricsServer has the lab's metrics-server serve metrics.k8s.io until the test ends.
func measuredByMetricsServer(t *testing.T) {
	t.Helper()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	lead := func(ctx context.Context, service map[string]any) {
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := cluster.Get(ctx, client.ObjectKey{Name: "v1beta1.metrics.k8s.io"}, now); err != nil {
				return err
			}
			now.Object["spec"].(map[string]any)["service"] = service
			return cluster.Update(ctx, now)
		}))
	}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: "v1beta1.metrics.k8s.io"}, now))
	before, _, err := unstructured.NestedMap(now.Object, "spec", "service")
	require.NoError(t, err)
	require.NotNil(t, metricsServer)
	lead(t.Context(), metricsServer)
	t.Cleanup(func() { lead(context.Background(), before) })
}

// TestExternalMetricsAreReadThroughTheAPIServer from an adapter that is registered through the
// aggregation layer.
func TestExternalMetricsAreReadThroughTheAPIServer(t *testing.T) {
	ns := namespace(t, "usage-external")
	external, err := usage.NewExternalClient(cluster.Config)
	require.NoError(t, err)
	selector, err := labels.Parse("app=web,tier in (front,back)")
	require.NoError(t, err)
	source := &usage.External{Client: external, CPUMetric: "container_cpu", MemoryMetric: "container_memory",
		Workloads: func() []usage.Workload {
			return []usage.Workload{{Namespace: ns, Selector: selector, Pods: []string{"web-1", "web-2"}}}
		}}
	_, err = source.Samples(t.Context())
	require.ErrorContains(t, err, "2 of 2 queries of external metric container_memory failed", "nobody serves the API")
	require.ErrorContains(t, err, "does the metrics adapter know the metric")

	at := metav1.NewTime(time.Now().Truncate(time.Second))
	serveExternalMetrics(t, ns, at, map[string]string{"container_cpu web-1": "1500m", "container_memory web-1": "1Gi", "container_cpu web-2": "20m"})

	var got []model.Sample
	hang.Eventually(t, "external metrics", func(ctx context.Context) (bool, error) {
		got, err = source.Samples(ctx)
		return len(got) == 3, nil
	})
	require.ErrorContains(t, err, fmt.Sprintf("1 of 2 queries of external metric container_memory failed; the first was for pod %s/web-2", ns))
	require.NotContains(t, err.Error(), "container_cpu")
	for i := range got {
		got[i].At = got[i].At.UTC()
	}
	of := func(pod string, r model.Resource, amount int64) model.Sample {
		return model.Sample{Pod: model.PodID{Namespace: ns, Name: pod}, Container: "app", Resource: r, Amount: amount, At: at.UTC()}
	}
	require.Equal(t, []model.Sample{of("web-1", model.CPU, 1500), of("web-1", model.Memory, 1<<30), of("web-2", model.CPU, 20)}, got)

	config := rest.CopyConfig(cluster.Config)
	config.Impersonate.UserName = "nobody"
	source.Client, err = usage.NewExternalClient(config)
	require.NoError(t, err)
	got, err = source.Samples(t.Context())
	require.Empty(t, got)
	require.ErrorContains(t, err, "allow this process to get and list container_cpu in API group external.metrics.k8s.io")
}

// serveExternalMetrics registers an adapter until the test ends. It serves "metric pod" of
// container app in one namespace, where pods have labels app: web and tier: front.
func serveExternalMetrics(t *testing.T, ns string, at metav1.Time, amounts map[string]string) {
	t.Helper()
	adapter := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const root = "/apis/external.metrics.k8s.io/v1beta1"
		w.Header().Set("Content-Type", "application/json")
		metric, ok := strings.CutPrefix(r.URL.Path, root+"/namespaces/"+ns+"/")
		if !ok { // the API server looks whether somebody is there, and what is served
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "external.metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{}})
			return
		}
		asked, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		list := externalv1beta1.ExternalMetricValueList{TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: "external.metrics.k8s.io/v1beta1"}}
		for _, pod := range []string{"web-0", "web-1", "web-2", "web-3"} {
			if err != nil || !asked.Matches(labels.Set{"app": "web", "tier": "front", "pod": pod}) {
				continue
			}
			amount, known := amounts[metric+" "+pod]
			if !known {
				http.Error(w, "no such series", http.StatusInternalServerError)
				return
			}
			list.Items = append(list.Items, externalv1beta1.ExternalMetricValue{MetricName: metric, Timestamp: at, Value: resource.MustParse(amount),
				MetricLabels: map[string]string{"name": "app", "pod": pod}})
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(adapter.Close)
	_, text, err := net.SplitHostPort(adapter.Listener.Addr().String())
	require.NoError(t, err)
	port, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": ns, "name": "adapter"},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost"},
	}}
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.external.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": ns, "name": "adapter", "port": port},
		},
	}}
	create(t, service, api)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), api)) }) // namespaces cannot be deleted while it is down
}
