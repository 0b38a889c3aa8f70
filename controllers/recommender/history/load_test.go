package history

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// What a real Prometheus can be made to say is tested against one, in conformance/history. Here
// is the rest.

func TestWhatIsNoAmountLosesOnlyItself(t *testing.T) {
	server := serve(t, answers{
		cpu:    matrix(series("a", "p", "c", -3, "NaN", -2, "+Inf", -1, "0.0019", 0, "1e300"), series("a", "p", "d", 0, "-0.5")),
		memory: matrix(series("a", "p", "c", -3, "-1", -2, "-Inf", -1, "12.9", 0, "0"), `null`, `{"metric":{}}`),
		ofPods: vector(`{"metric":{"kubernetes_namespace":"a","kubernetes_pod_name":"p","pod_label_app":"x","pod_label_":"y","job":"z"},"value":[1,"1"]}`, `null`),
	})
	s, _ := source(t, server.URL)
	pods, err := s.Load(t.Context(), now)
	require.ErrorContains(t, err, "samples of container_cpu_usage_seconds_total that are not amounts (not a number, infinite or below 0): 3, "+
		`e.g. NaN at 2026-11-21T11:57:00Z of {name="c", namespace="a", pod_name="p"}`)
	require.ErrorContains(t, err, "samples of container_memory_working_set_bytes that are not amounts (not a number, infinite or below 0): 2")
	require.ErrorContains(t, err, "series without label namespace in answers about container_memory_working_set_bytes: 4, e.g. {}")
	require.Len(t, strings.Split(err.Error(), "\n"), 3)
	require.Len(t, pods, 1)
	require.Equal(t, map[string]string{"app": "x"}, pods[0].Labels)
	id := model.PodID{Namespace: "a", Name: "p"}
	require.Equal(t, []model.Sample{
		{Pod: id, Container: "c", Resource: model.CPU, Amount: 1, At: now.Add(-time.Minute)},
		{Pod: id, Container: "c", Resource: model.Memory, Amount: 12, At: now.Add(-time.Minute)},
		{Pod: id, Container: "c", Resource: model.CPU, Amount: 1e14, At: now},
		{Pod: id, Container: "c", Resource: model.Memory, Amount: 0, At: now},
	}, pods[0].Samples())
}

func TestSamplesHaveOneOrder(t *testing.T) {
	server := serve(t, answers{
		cpu:    matrix(series("b", "p", "z", 0, "1"), series("b", "p", "a", -1, "1", 0, "1"), series("b", "p", "a", -2, "1", 0, "2"), series("a", "q", "c", 0, "1")),
		memory: matrix(series("b", "p", "a", -2, "1"), series("a", "p", "c", 0, "1")),
	})
	s, _ := source(t, server.URL)
	pods, _ := s.Load(t.Context(), now)
	var got []string
	for _, p := range pods {
		for _, sample := range p.Samples() {
			got = append(got, fmt.Sprintf("%s/%s/%s %d %d@%d", sample.Pod.Namespace, sample.Pod.Name, sample.Container, sample.Resource, sample.Amount, int(sample.At.Sub(now).Minutes())))
		}
	}
	require.Equal(t, []string{
		"a/p/c 1 1@0", "a/q/c 0 1000@0",
		"b/p/a 0 1000@-2", "b/p/a 1 1@-2", "b/p/a 0 1000@-1", "b/p/a 0 2000@0", "b/p/a 0 1000@0", "b/p/z 0 1000@0",
	}, got)
}

func TestOneFailingQueryLosesOnlyItself(t *testing.T) {
	good := answers{
		cpu: matrix(series("a", "p", "c", 0, "1")), memory: matrix(series("a", "p", "c", 0, "1")),
		ofPods: vector(`{"metric":{"kubernetes_namespace":"a","kubernetes_pod_name":"p"},"value":[1,"1"]}`),
	}
	for name, row := range map[string]struct {
		query, answer, want string
		samples, waits      int
		labels              map[string]string
	}{
		"nothing fails":                {samples: 2, labels: map[string]string{}},
		"CPU is bad data":              {query: cpu, answer: `400 {"status":"error","errorType":"bad_data","error":"no good"}`, want: "queries for container_cpu_usage_seconds_total failed: 1, e.g. from 2026-11-21T11:00:00Z to 2026-11-21T11:00:00Z: bad_data: no good", samples: 1, labels: map[string]string{}},
		"memory is too much":           {query: memory, answer: `422 {"status":"error","errorType":"execution","error":"too many samples"}`, want: "queries for container_memory_working_set_bytes failed: 3, e.g. from 2026-11-21T11:00:00Z to 2026-11-21T11:00:00Z: execution: too many samples", samples: 1, labels: map[string]string{}},
		"labels take too long":         {query: ofPods, answer: `503 {"status":"error","errorType":"timeout","error":"query timed out"}`, want: `queries for up{job="kubernetes-pods"} failed (read less, `, samples: 2},
		"labels are a number":          {query: ofPods, answer: `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`, want: "the answer is a scalar: let --metric-for-pod-labels be", samples: 2},
		"labels are nothing":           {query: ofPods, answer: `{"status":"success"}`, want: "the answer is nothing: let --metric-for-pod-labels be", samples: 2},
		"CPU is a vector":              {query: cpu, answer: vector(), want: "is a vector, not a matrix", samples: 1, labels: map[string]string{}},
		"CPU is nothing":               {query: cpu, answer: `{}`, want: "is nothing, not a matrix", samples: 1, labels: map[string]string{}},
		"CPU is no JSON":               {query: cpu, answer: `<html>`, want: "queries for container_cpu_usage_seconds_total failed: 1, e.g. from 2026-11-21T11:00:00Z to 2026-11-21T11:00:00Z: bad_response:", samples: 1, labels: map[string]string{}},
		"a proxy refuses":              {query: cpu, answer: `401 <html> Who are   you?`, want: "failed (see --prometheus-address and the flags for credentials): 1, e.g. from 2026-11-21T11:00:00Z to 2026-11-21T11:00:00Z: client_error: client error: 401: <html> Who are you?", samples: 1, labels: map[string]string{}},
		"a proxy finds no one, always": {query: cpu, answer: `502 nobody home`, want: "queries for container_cpu_usage_seconds_total failed: 3, e.g. from 2026-11-21T11:00:00Z to 2026-11-21T11:00:00Z: server_error: server error: 502: nobody home", samples: 1, waits: 7, labels: map[string]string{}},
		"an endless answer is cut":     {query: cpu, answer: `400 ` + strings.Repeat("x\n", 5000), want: "x x x x …", samples: 1, labels: map[string]string{}},
		"no series match":              {query: memory, answer: nothing, want: "queries for container_memory_working_set_bytes that found no series (see the metric's name, ", samples: 1, labels: map[string]string{}},
		"a warning":                    {query: memory, answer: `{"status":"success","warnings":["PromQL warning: this is odd"],"data":{"resultType":"matrix","result":[` + series("a", "p", "c", 0, "1") + `]}}`, want: "warnings of Prometheus about container_memory_working_set_bytes: 4, e.g. PromQL warning: this is odd", samples: 2, labels: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			all := answers{row.query: row.answer}
			for query, answer := range good {
				if query != row.query {
					all[query] = answer
				}
			}
			delete(all, "")
			s, clk := source(t, serve(t, all).URL)
			pods, err := s.Load(t.Context(), now)
			if row.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, row.want)
				require.Less(t, len(err.Error()), 1000)
			}
			require.Len(t, pods, 1)
			require.Len(t, pods[0].Samples(), row.samples)
			require.Equal(t, row.labels, pods[0].Labels)
			require.Len(t, clk.waited, row.waits)
		})
	}
}

func TestAPrometheusThatIsStillStartingIsAskedAgain(t *testing.T) {
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries <= 3 {
			http.Error(w, "Service Unavailable", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(within(r, matrix(series("a", "p", "c", 0, "1")))))
	}))
	defer server.Close()
	s, clk := source(t, server.URL)
	pods, _ := s.Load(t.Context(), now)
	require.Len(t, pods, 1)
	require.Len(t, pods[0].Samples(), 2)
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, clk.waited)
	_, _ = s.Load(t.Context(), now)
	require.Len(t, clk.waited, 3, "patience is for when it is needed")
}

func TestAPrometheusThatIsNotThereIsGivenUp(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	s, clk := source(t, server.URL)
	pods, err := s.Load(t.Context(), now)
	require.Empty(t, pods)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "; Prometheus is unreachable, so the remaining queries are skipped")
	require.Len(t, strings.Split(err.Error(), "\n"), 1)
	require.Equal(t, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9}, clk.waited, "half a minute in all, not for each query")
	again, clk2 := source(t, server.URL)
	_, _ = again.Load(t.Context(), now)
	require.Len(t, clk2.waited, 5, "each load has patience of its own")
}

func TestErrorsHoldNoPasswordOfTheAddress(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	s, _ := source(t, strings.Replace(server.URL, "http://", "http://u:secret@", 1))
	_, err := s.Load(t.Context(), now)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

func TestACertificateThatNobodyKnowsIsNotWaitedFor(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(within(r, matrix(series("a", "p", "c", 0, "1")))))
	}))
	defer server.Close()
	s, clk := source(t, server.URL)
	pods, err := s.Load(t.Context(), now)
	require.Empty(t, pods)
	require.ErrorContains(t, err, "certificate")
	require.Empty(t, clk.waited)
	before := http.DefaultTransport.(*http.Transport).TLSClientConfig
	s, _ = source(t, server.URL, "--prometheus-insecure")
	pods, _ = s.Load(t.Context(), now)
	require.Len(t, pods, 1)
	require.Equal(t, before, http.DefaultTransport.(*http.Transport).TLSClientConfig, "only this client takes any certificate")
}

func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; strings.HasPrefix(r.FormValue("query"), memory) {
			cancel()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte(within(r, matrix(series("a", "p", "c", -60, "1")))))
	}))
	defer server.Close()
	s, _ := source(t, server.URL)
	pods, err := s.Load(ctx, now)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, pods, 1, "what was read before is kept")
	require.Equal(t, 6, asked, "labels, four parts of CPU and one of memory, and nothing more")
}

// direct answers requests without a network, so that a stalled one ends by the clock of a synctest.
type direct http.HandlerFunc

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if d(w, r); r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return w.Result(), nil
}

func TestAQueryThatTakesTooLongEndsItsMetricOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, begin := 0, time.Now()
		c := parsed(t, "--prometheus-address=http://prometheus", "--history-length=8d", "--history-resolution=1h")
		c.Transport = direct(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.FormValue("query"), cpu) {
				asked++
				<-r.Context().Done()
				return
			}
			_, _ = w.Write([]byte(within(r, matrix(series("a", "p", "c", 0, "1")))))
		})
		clk := &hasty{}
		s, err := New(c, clk, logr.Discard())
		require.NoError(t, err)
		pods, err := s.Load(t.Context(), now)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3, asked)
		require.Equal(t, 3*time.Duration(c.QueryTimeout), time.Since(begin))
		require.Empty(t, clk.waited)
		require.Len(t, pods, 1)
	})
}

func TestCredentialsStayWithTheirHost(t *testing.T) {
	var elsewhere, here []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere = append(elsewhere, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(nothing))
	}))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here = append(here, r.Header.Get("Authorization"))
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	s, _ := source(t, first.URL, "--prometheus-bearer-token=t")
	_, _ = s.Load(t.Context(), now)
	require.NotEmpty(t, here)
	require.Len(t, elsewhere, len(here))
	for i := range here {
		require.Equal(t, "Bearer t", here[i])
		require.Empty(t, elsewhere[i])
	}
}

func TestPodLabelsAreThoseOfTheNewestSeries(t *testing.T) {
	pod := func(app string, minutes ...any) string {
		return strings.Replace(series("a", "p", "", minutes...), `"metric":{`, fmt.Sprintf(`"metric":{"kubernetes_namespace":"a","kubernetes_pod_name":"p","pod_label_app":%q,`, app), 1)
	}
	for name, row := range map[string]struct {
		series []string
		want   map[string]string
	}{
		"the last is the newest":      {[]string{pod("old", -3, 1), pod("new", -3, 1, -2, 1)}, map[string]string{"app": "new"}},
		"the first is the newest":     {[]string{pod("new", -3, 1, -2, 1), pod("old", -3, 1)}, map[string]string{"app": "new"}},
		"of equals the first by name": {[]string{pod("b", -3, 1), pod("a", -3, 1), pod("c", -3, 1)}, map[string]string{"app": "a"}},
		"without values it is old":    {[]string{pod("b"), pod("c", -3, 1)}, map[string]string{"app": "c"}},
		"another pod's do not count":  {[]string{strings.Replace(pod("b", -3, 1), `_pod_name":"p"`, `_pod_name":"q"`, 1)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, answers{cpu: matrix(series("a", "p", "c", 0, "1")), ofPods: matrix(row.series...)})
			s, _ := source(t, server.URL)
			pods, err := s.Load(t.Context(), now)
			require.Len(t, pods, 1, "pods without usage are left out")
			require.Equal(t, row.want, pods[0].Labels)
			if row.want == nil {
				require.ErrorContains(t, err, `pods with usage but without labels in up{job="kubernetes-pods"}`)
			}
		})
	}
}

func TestRequestsAreCounted(t *testing.T) {
	count := func() (n float64) {
		families, err := metrics.Registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.Metric {
				labels := fmt.Sprint(m.Label)
				switch f.GetName() {
				case "vpa_recommender_prometheus_client_api_requests_count":
					if strings.Contains(labels, `"422"`) && strings.Contains(labels, `"post"`) {
						n += m.Counter.GetValue()
					}
				case "vpa_recommender_prometheus_client_api_requests_duration_seconds":
					require.Len(t, m.Histogram.Bucket, 21)
				}
			}
		}
		return n
	}
	before := count()
	s, _ := source(t, serve(t, answers{cpu: "422 no"}).URL)
	_, err := s.Load(t.Context(), now)
	require.Error(t, err)
	require.Equal(t, before+1, count())
}
