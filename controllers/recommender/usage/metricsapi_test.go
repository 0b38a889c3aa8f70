package usage

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/clientset/versioned/scheme"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// encode writes an object in a media type.
func encode(t testing.TB, mediaType string, o runtime.Object) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	require.True(t, ok)
	data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, v1beta1.SchemeGroupVersion), o)
	require.NoError(t, err)
	return data
}

// metricsServer serves a list as protobuf to those who ask for it, else as JSON, and notes what was
// asked for.
func metricsServer(t testing.TB, list *v1beta1.PodMetricsList, mediaTypes ...string) (*rest.Config, *[]string) {
	t.Helper()
	bodies := map[string][]byte{}
	for _, m := range mediaTypes {
		bodies[m] = encode(t, m, list)
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, m := range strings.Split(r.Header.Get("Accept"), ",") {
			if body, ok := bodies[m]; ok {
				asked = append(asked, r.URL.Path+" "+m)
				w.Header().Set("Content-Type", m)
				_, _ = w.Write(body)
				return
			}
		}
		http.Error(w, "not acceptable", http.StatusNotAcceptable)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, &asked
}

func amounts(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if cpu != "" {
		out["cpu"] = resource.MustParse(cpu)
	}
	if memory != "" {
		out["memory"] = resource.MustParse(memory)
	}
	return out
}

func podMetrics(name string, at time.Time, usage ...corev1.ResourceList) v1beta1.PodMetrics {
	p := v1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Timestamp: metav1.NewTime(at), Window: metav1.Duration{Duration: time.Minute}}
	for i, u := range usage {
		p.Containers = append(p.Containers, v1beta1.ContainerMetrics{Name: fmt.Sprintf("c%d", i), Usage: u})
	}
	return p
}

// TestTheUsageOfEachContainerGivesSamples: what is not reported is no usage of 0
// (UPSTREAM.md Appendix B 11).
func TestTheUsageOfEachContainerGivesSamples(t *testing.T) {
	list := &v1beta1.PodMetricsList{Items: []v1beta1.PodMetrics{
		podMetrics("web-1", noon, amounts("250m", "1Gi"), amounts("123456789n", "5")),
		podMetrics("web-2", noon.Add(time.Second), amounts("", "7"), amounts("1", ""), amounts("", "")),
		podMetrics("odd", noon, amounts("-1", "-5"), amounts("9223372036854775807", "1e30")),
		podMetrics("empty", noon),
		podMetrics("timeless", time.Time{}, amounts("1", "1")),
	}}
	const unreported = math.MinInt64
	type pair struct{ cpu, memory int64 }
	var want []model.Sample
	for _, pod := range []struct {
		name  string
		at    time.Time
		usage []pair
	}{
		{"web-1", noon, []pair{{250, 1 << 30}, {124, 5}}},
		{"web-2", noon.Add(time.Second), []pair{{unreported, 7}, {1000, unreported}, {unreported, unreported}}},
		{"odd", noon, []pair{{-1000, -5}, {math.MaxInt64, math.MaxInt64}}},
	} {
		for i, u := range pod.usage {
			id, c := model.PodID{Namespace: "shop", Name: pod.name}, fmt.Sprintf("c%d", i)
			if u.cpu != unreported {
				want = append(want, model.Sample{Pod: id, Container: c, Resource: model.CPU, Amount: u.cpu, At: pod.at})
			}
			if u.memory != unreported {
				want = append(want, model.Sample{Pod: id, Container: c, Resource: model.Memory, Amount: u.memory, At: pod.at})
			}
		}
	}
	for name, test := range map[string]struct {
		serves []string
		takes  string
	}{
		"as protobuf":                  {[]string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}, runtime.ContentTypeProtobuf},
		"as JSON where that is served": {[]string{runtime.ContentTypeJSON}, runtime.ContentTypeJSON},
	} {
		t.Run(name, func(t *testing.T) {
			config, asked := metricsServer(t, list, test.serves...)
			before := [3]float64{testutil.ToFloat64(responses.WithLabelValues("false", metricsAPIName)),
				testutil.ToFloat64(skipped.WithLabelValues(metricsAPIName, withoutTime)), testutil.ToFloat64(skipped.WithLabelValues(metricsAPIName, withoutContainers))}
			source, err := NewMetricsAPI(config, "shop")
			require.NoError(t, err)
			got, err := source.Samples(t.Context())
			require.NoError(t, err)
			for i := range got {
				got[i].At = got[i].At.UTC()
			}
			require.Equal(t, want, got)
			require.Equal(t, []string{"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods " + test.takes}, *asked)
			require.Equal(t, [3]float64{before[0] + 1, before[1] + 1, before[2] + 1}, [3]float64{testutil.ToFloat64(responses.WithLabelValues("false", metricsAPIName)),
				testutil.ToFloat64(skipped.WithLabelValues(metricsAPIName, withoutTime)), testutil.ToFloat64(skipped.WithLabelValues(metricsAPIName, withoutContainers))})
		})
	}
}

func TestWhatIsWrongWithMetricsServerIsSaidWithTheWayOut(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		says string
		is   func(error) bool
	}{
		"nobody serves the API":  {404, "is metrics-server installed, and does `kubectl get apiservice v1beta1.metrics.k8s.io` call it available?", apierrors.IsNotFound},
		"its server is not here": {503, "is metrics-server installed", apierrors.IsServiceUnavailable},
		"it may not be read":     {403, "allow this process to get and list pods in API group metrics.k8s.io", apierrors.IsForbidden},
		"it fails":               {500, "see the log of metrics-server", apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", test.code) }))
			defer server.Close()
			before := testutil.ToFloat64(responses.WithLabelValues("true", metricsAPIName))
			source, err := NewMetricsAPI(&rest.Config{Host: server.URL}, "")
			require.NoError(t, err)
			got, err := source.Samples(t.Context())
			require.Empty(t, got)
			require.ErrorContains(t, err, "listing the usage of pods: ")
			require.ErrorContains(t, err, test.says)
			require.True(t, test.is(err), "%v", err)
			require.Equal(t, before+1, testutil.ToFloat64(responses.WithLabelValues("true", metricsAPIName)))
		})
	}
}

// BenchmarkMetricsAPI reads 20,000 pods of two containers, as they are read every minute.
func BenchmarkMetricsAPI(b *testing.B) {
	list := &v1beta1.PodMetricsList{}
	for i := range 20000 {
		p := podMetrics(fmt.Sprintf("checkout-7d9f8b6c5d-%05d", i), noon, amounts("12345678n", "123456Ki"), amounts("345678n", "23456Ki"))
		p.Labels = map[string]string{"app.kubernetes.io/name": "checkout", "app.kubernetes.io/instance": "checkout-eu", "pod-template-hash": "7d9f8b6c5d"}
		p.CreationTimestamp = metav1.NewTime(noon)
		list.Items = append(list.Items, p)
	}
	for name, mediaType := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		b.Run(name, func(b *testing.B) {
			config, _ := metricsServer(b, list, mediaType)
			b.ReportMetric(float64(len(encode(b, mediaType, list)))/1e6, "MB/answer")
			source, err := NewMetricsAPI(config, "")
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				got, err := source.Samples(b.Context())
				require.NoError(b, err)
				require.Len(b, got, 80000)
			}
		})
	}
}

// TestAnAmountThatIsNoneLosesItsOwnPodOnly: a list is decoded as a whole, so that one amount would
// take the usage of all pods with it.
func TestAnAmountThatIsNoneLosesItsOwnPodOnly(t *testing.T) {
	for _, odd := range []string{"NaN", "+Inf", "", "12 MB", "0x10"} {
		t.Run(odd, func(t *testing.T) {
			list := encode(t, runtime.ContentTypeJSON, &v1beta1.PodMetricsList{Items: []v1beta1.PodMetrics{
				podMetrics("web-1", noon, amounts("1", "1Gi")), podMetrics("odd", noon, amounts("1", "77")), podMetrics("web-2", noon, amounts("2", "2Gi"))}})
			text := strings.Replace(string(list), `"77"`, strconv.Quote(odd), 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", runtime.ContentTypeJSON)
				_, _ = w.Write([]byte(text))
			}))
			t.Cleanup(server.Close)
			m, err := NewMetricsAPI(&rest.Config{Host: server.URL}, "")
			require.NoError(t, err)
			before := testutil.ToFloat64(skipped.WithLabelValues(metricsAPIName, unreadableUsage))
			got, err := m.Samples(t.Context())
			require.ErrorContains(t, err, "the usage of 1 of 3 pods cannot be read and is left out; the first is pod shop/odd: ")
			require.Equal(t, before+1, testutil.ToFloat64(skipped.WithLabelValues(metricsAPIName, unreadableUsage)))
			for i := range got {
				got[i].At = got[i].At.UTC()
			}
			require.Equal(t, []model.Sample{
				sample("web-1", "c0", model.CPU, 1000, noon), sample("web-1", "c0", model.Memory, 1<<30, noon),
				sample("web-2", "c0", model.CPU, 2000, noon), sample("web-2", "c0", model.Memory, 2<<30, noon),
			}, got)
		})
	}
}
