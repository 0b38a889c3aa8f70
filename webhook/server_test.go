package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/conformance/hang"
)

// memo is a log that can be read.
type memo struct {
	lines chan string
}

func (m *memo) log() logr.Logger {
	return funcr.New(func(_, args string) { m.lines <- args }, funcr.Options{})
}

func newMemo() *memo { return &memo{lines: make(chan string, 1000)} }

// written returns the lines of the log and empties it.
func (m *memo) written() (out []string) {
	for {
		select {
		case l := <-m.lines:
			out = append(out, l)
		default:
			return out
		}
	}
}

func testServer(t *testing.T, handle admission.HandlerFunc, change func(*ServerOptions)) (*Server, *memo) {
	t.Helper()
	m := newMemo()
	o := ServerOptions{Handler: handle, Timeout: hang.Limit, Clock: clock.RealClock{}, Log: ShortValues(m.log())}
	if change != nil {
		change(&o)
	}
	return NewServer(o), m
}

// onItsClock runs a test whose time passes while everybody waits, until the workers have ended.
func onItsClock(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(2 * workerIdle)
		test(t)
	})
}

// post sends a body to a server and returns the answer, which must be a review with nothing but a response.
func post(t *testing.T, s http.Handler, target, body string) *admissionv1.AdmissionResponse {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &fields), w.Body.String())
	require.Len(t, fields, 3, w.Body.String())
	require.Equal(t, `"admission.k8s.io/v1"`, string(fields["apiVersion"]))
	require.Equal(t, `"AdmissionReview"`, string(fields["kind"]))
	answer := &admissionv1.AdmissionResponse{}
	require.NoError(t, json.Unmarshal(fields["response"], answer))
	require.Equal(t, len(answer.Patch) > 0, answer.PatchType != nil, "a patch has a type, and only a patch")
	return answer
}

const (
	reviewHead = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":`
	podReview  = reviewHead + `{"uid":"u1","kind":{"version":"v1","kind":"Pod"},"requestKind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},
  "requestResource":{"version":"v1","resource":"pods"},"namespace":"a","name":"p","operation":"CREATE","userInfo":{"username":"x","groups":["y"]},"dryRun":true,
  "object":{"metadata":{"name":"p"}},"oldObject":null,"options":{"kind":"CreateOptions"}}}`
)

func shedBy(reason string) float64 { return testutil.ToFloat64(shedTotal.WithLabelValues(reason)) }

// TestTheHandlerGetsTheReviewAndItsAnswerIsSent byte by byte.
func TestTheHandlerGetsTheReviewAndItsAnswerIsSent(t *testing.T) {
	var got admission.Request
	var resp admission.Response
	s, _ := testServer(t, func(_ context.Context, req admission.Request) admission.Response {
		got = req
		return resp
	}, nil)
	answer := func(r admission.Response) string {
		resp = r
		w := httptest.NewRecorder()
		r2 := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(podReview))
		r2.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(w, r2)
		return strings.TrimPrefix(w.Body.String(), `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":`)
	}
	require.Equal(t, `{"uid":"u1","allowed":true}}`, answer(admission.Allowed("")))
	require.EqualValues(t, "u1", got.UID)
	require.Equal(t, admissionv1.Create, got.Operation)
	require.Equal(t, "a/p", got.Namespace+"/"+got.Name)
	require.Equal(t, metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, got.Resource)
	require.Equal(t, &metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, got.RequestKind)
	require.Equal(t, `{"metadata":{"name":"p"}}`, string(got.Object.Raw))
	require.Nil(t, got.OldObject.Raw)
	require.Equal(t, ptr.To(true), got.DryRun)

	require.Equal(t, `{"uid":"u1","allowed":true,"status":{"metadata":{},"message":"why not","code":200}}}`, answer(admission.Allowed("why not")))
	require.Equal(t, `{"uid":"u1","allowed":false,"status":{"metadata":{},"message":"no","reason":"Forbidden","code":403},"warnings":["a","b"]}}`,
		answer(admission.Denied("no").WithWarnings("a", "b")))
	var patched struct{ Patch []byte }
	text := answer(admission.Patched("", jsonpatch.NewOperation("add", "/a~1b", map[string]int{"x": 1}), jsonpatch.NewOperation("remove", "/c", nil), jsonpatch.NewOperation("replace", "/d", nil)))
	require.NoError(t, json.Unmarshal([]byte(strings.TrimSuffix(text, "}")), &patched))
	require.Contains(t, text, `"patchType":"JSONPatch"`)
	require.Equal(t, `[{"op":"add","path":"/a~1b","value":{"x":1}},{"op":"remove","path":"/c"},{"op":"replace","path":"/d","value":null}]`, string(patched.Patch))
	require.Equal(t, `{"uid":"u1","allowed":true}}`, answer(admission.Patched("", jsonpatch.NewOperation("add", "/a", func() {}))), "what cannot be written is left out")
	denied := admission.Denied("no")
	denied.Patches = []jsonpatch.Operation{jsonpatch.NewOperation("remove", "/c", nil)}
	require.NotContains(t, answer(denied), "patch")
}

func TestTimeIsWhatTheAPIServerSaysOrWhatWasRegistered(t *testing.T) {
	s, _ := testServer(t, nil, func(o *ServerOptions) { o.Timeout = 10 * time.Second })
	for query, want := range map[string]time.Duration{
		"": 9 * time.Second, "?timeout=30s": 9 * time.Second, "?timeout=5s": 4 * time.Second, "?timeout=1s": 800 * time.Millisecond,
		"?timeout=0s": 9 * time.Second, "?timeout=-1s": 9 * time.Second, "?timeout=soon": 9 * time.Second,
	} {
		require.Equal(t, want, s.limit(httptest.NewRequest(http.MethodPost, "/"+query, nil)), query)
	}
}

// TestAStuckHandlerKeepsNobodyWaiting: its context ends, and the pod is admitted unpatched whether it looks at that or not.
func TestAStuckHandlerKeepsNobodyWaiting(t *testing.T) {
	onItsClock(t, func(t *testing.T) {
		release := make(chan struct{})
		ended := make(chan error, 2)
		s, log := testServer(t, func(ctx context.Context, _ admission.Request) admission.Response {
			<-ctx.Done()
			ended <- ctx.Err()
			<-release
			return admission.Denied("too late")
		}, func(o *ServerOptions) { o.Concurrent = 2 })
		before, skipped := shedBy(shedDeadline), testutil.ToFloat64(podSkipped)
		for range 2 {
			begin := time.Now()
			answer := post(t, s, "/?timeout=5s", podReview)
			require.Equal(t, 4*time.Second, time.Since(begin))
			require.True(t, answer.Allowed)
			require.EqualValues(t, "u1", answer.UID)
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		}
		require.EqualValues(t, 2, shedBy(shedDeadline)-before)
		require.EqualValues(t, 2, testutil.ToFloat64(podSkipped)-skipped)
		require.EqualValues(t, 2, testutil.ToFloat64(inFlight), "they run on, and count against those that may run")
		require.Len(t, log.written(), 1, "the second is suppressed")

		overload := shedBy(shedOverload)
		require.True(t, post(t, s, "/", podReview).Allowed)
		require.EqualValues(t, 1, shedBy(shedOverload)-overload)
		require.Contains(t, log.written()[0], "too many reviews at once")
		close(release)
		synctest.Wait()
		require.Zero(t, testutil.ToFloat64(inFlight))
		require.Empty(t, s.slots)
	})
}

// TestAReviewWaitsForItsTurnForAMoment, and is then reviewed.
func TestAReviewWaitsForItsTurnForAMoment(t *testing.T) {
	onItsClock(t, func(t *testing.T) {
		release := make(chan struct{})
		s, _ := testServer(t, func(context.Context, admission.Request) admission.Response {
			<-release
			return admission.Denied("reviewed")
		}, func(o *ServerOptions) { o.Concurrent = 1 })
		answers := make(chan bool, 2)
		for range 2 {
			go func() { answers <- post(t, s, "/", podReview).Allowed }()
		}
		time.Sleep(queueWait - 1)
		close(release)
		require.False(t, <-answers)
		require.False(t, <-answers)
	})
}

// The panic is logged with its place.
func TestAPanicIsOneReviewsOwn(t *testing.T) {
	s, log := testServer(t, func(context.Context, admission.Request) admission.Response { panic("oh no") }, nil)
	before := shedBy(shedPanic)
	require.True(t, post(t, s, "/", podReview).Allowed)
	require.EqualValues(t, 1, shedBy(shedPanic)-before)
	lines := log.written()
	require.Len(t, lines, 1)
	for _, part := range []string{"oh no", "please report this", `"uid"="u1"`, "server_test.go"} {
		require.Contains(t, lines[0], part)
	}
	// The handler itself, without a client.
	s, _ = testServer(t, (&Handler{Log: logr.Discard()}).Handle, nil)
	require.True(t, post(t, s, "/", podReview).Allowed)
}

func TestOutcomesAreCountedByStatusAndResource(t *testing.T) {
	var resp admission.Response
	s, _ := testServer(t, func(context.Context, admission.Request) admission.Response { return resp }, nil)
	vpaReview := strings.Replace(podReview, `"resource":{"version":"v1","resource":"pods"}`, `"resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"}`, 1)
	patched := admission.Patched("", jsonpatch.NewOperation("remove", "/a", nil))
	for _, tt := range []struct {
		body             string
		resp             admission.Response
		status, resource string
		applied          string // of a pod
	}{
		{podReview, patched, "applied", "Pod", "true"},
		{podReview, admission.Allowed(""), "skipped", "Pod", "false"},
		{podReview, admission.Denied(""), "error", "Pod", "false"},
		{vpaReview, patched, "applied", "VPA", ""},
		{vpaReview, admission.Allowed(""), "skipped", "VPA", ""},
		{vpaReview, admission.Denied(""), "error", "VPA", ""},
		{strings.ReplaceAll(podReview, `"pods"`, `"nodes"`), admission.Allowed(""), "skipped", "unknown", ""},
		{"", admission.Allowed(""), "error", "unknown", ""},
	} {
		admissionLatency.Reset()
		for i, status := range []string{"error", "skipped", "applied"} {
			for j, resource := range []string{"unknown", "Pod", "VPA"} {
				latencies[i][j] = admissionLatency.WithLabelValues(status, resource)
			}
		}
		before := map[string]float64{"true": testutil.ToFloat64(podApplied), "false": testutil.ToFloat64(podSkipped)}
		resp = tt.resp
		post(t, s, "/", tt.body)
		text, err := testutil.CollectAndFormat(admissionLatency, expfmt.TypeTextPlain, "vpa_admission_controller_admission_latency_seconds")
		require.NoError(t, err)
		require.Contains(t, string(text), fmt.Sprintf("vpa_admission_controller_admission_latency_seconds_count{resource=%q,status=%q} 1\n", tt.resource, tt.status))
		for applied, n := range before {
			want := n
			if applied == tt.applied {
				want++
			}
			require.Equal(t, want, testutil.ToFloat64(podsTotal.WithLabelValues(applied)), "%+v", tt)
		}
	}
}
