package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
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

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
)

// memo is a log that can be read.
type memo struct {
	lines chan string
}

func (m *memo) log() logr.Logger {
	return funcr.New(func(_, args string) { m.lines <- args }, funcr.Options{})
}

func newMemo() *memo { return &memo{lines: make(chan string, 1000)} }

// told empties the log.
func (m *memo) told() (out []string) {
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
	o := ServerOptions{Handler: handle, Timeout: 30 * time.Second, Clock: clock.RealClock{}, Log: ShortValues(m.log())}
	if change != nil {
		change(&o)
	}
	return NewServer(o), m
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

// TestReviewsThatMakeNoSenseAreAllowedAndToldOf: UPSTREAM.md §4.1 and Appendix B 5.
func TestReviewsThatMakeNoSenseAreAllowedAndToldOf(t *testing.T) {
	for name, tt := range map[string]struct{ body, uid, reason string }{
		"nothing at all":                  {``, "", "no AdmissionReview: jsontext: unexpected EOF"},
		"half a review":                   {podReview[:90], "u1", "no AdmissionReview: jsontext: unexpected EOF"},
		"no JSON":                         {`uid: 1`, "", "no AdmissionReview: jsontext: invalid character"},
		"a list":                          {`[]`, "", "unmarshal JSON array into Go"},
		"null":                            {`null`, "", `is a \"\" of \"\"`},
		"an empty object":                 {`{}`, "", `is a \"\" of \"\"`},
		"no request":                      {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, "", "has no request"},
		"null for a request":              {reviewHead + `null}`, "", "has no request"},
		"no requestKind":                  {reviewHead + `{"uid":"7"}}`, "7", "without a requestKind"},
		"no uid":                          {reviewHead + `{"requestKind":{}}}`, "", "without a uid"},
		"a name that is a number":         {reviewHead + `{"uid":"8","name":7,"requestKind":{}}}`, "8", "unmarshal JSON number"},
		"a request that is a text":        {reviewHead + `"create"}`, "", "unmarshal JSON string"},
		"another version":                 {strings.Replace(podReview, "k8s.io/v1", "k8s.io/v1beta1", 1), "u1", `is a \"AdmissionReview\" of \"admission.k8s.io/v1beta1\"`},
		"another kind":                    {strings.Replace(podReview, `"AdmissionReview"`, `"Pod"`, 1), "u1", `is a \"Pod\"`},
		"more than one":                   {podReview + podReview, "u1", "no AdmissionReview: jsontext: invalid character"},
		"nested deeper than anybody goes": {reviewHead + strings.Repeat(`{"name":`, 20000) + strings.Repeat("}", 20001), "", "exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			never, log := testServer(t, func(context.Context, admission.Request) admission.Response {
				t.Error("the handler is not asked about what makes no sense")
				return admission.Denied("")
			}, nil)
			before := shedBy(shedMalformed)
			answer := post(t, never, "/", tt.body)
			require.True(t, answer.Allowed)
			require.Equal(t, tt.uid, string(answer.UID))
			require.Nil(t, answer.Result)
			require.Empty(t, answer.Patch)
			require.EqualValues(t, 1, shedBy(shedMalformed)-before)
			told := log.told()
			require.Len(t, told, 1)
			require.Contains(t, told[0], tt.reason)
			require.Contains(t, told[0], `"uid"="`+tt.uid+`"`)
		})
	}
}

// Of a key that is there twice the last one counts, as for API servers: nobody sees one pod and
// has another one judged.
func TestOfAKeyThatIsThereTwiceTheLastCounts(t *testing.T) {
	var seen []string
	s, _ := testServer(t, func(_ context.Context, r admission.Request) admission.Response {
		seen = append(seen, string(r.UID)+" "+r.Name+" "+string(r.Operation))
		return admission.Allowed("")
	}, nil)
	answer := post(t, s, "/", reviewHead+`{"uid":"1","uid":"2","name":"a","name":"b","requestKind":{},"operation":"DELETE","operation":"CREATE","object":{"a":1},"object":{}}}`)
	require.Equal(t, "2", string(answer.UID))
	require.True(t, answer.Allowed)
	require.Equal(t, []string{"2 b CREATE"}, seen)
}

// TestObjectsThatMakeNoSenseAreTheHandlersAndDoNotPanic: the review around them is well.
func TestObjectsThatMakeNoSenseAreTheHandlersAndDoNotPanic(t *testing.T) {
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	h := &Handler{Rules: func() *compile.Rulebook { return book }, Log: logr.Discard()}
	s, _ := testServer(t, h.Handle, nil)
	const (
		pod = reviewHead + `{"uid":"1","requestKind":{},"resource":{"version":"v1","resource":"pods"},"operation":"CREATE"`
		vpa = reviewHead + `{"uid":"1","requestKind":{},"resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},"operation":`
	)
	before := shedBy(shedPanic)
	for _, body := range []string{
		pod + `}}`, pod + `,"object":[]}}`, pod + `,"object":{"metadata":{"name":7}}}}`, pod + `,"object":{"spec":7}}}`,
		vpa + `"CREATE","object":null}}`, vpa + `"CREATE"}}`, vpa + `"CREATE","object":"text"}}`,
		vpa + `"UPDATE","object":{"spec":[]},"oldObject":7}}`, vpa + `"DELETE","oldObject":{}}}`,
		reviewHead + `{"uid":"1","requestKind":{},"resource":{"group":"apps","version":"v1","resource":"deployments"},"operation":"CREATE","object":{}}}`,
	} {
		require.EqualValues(t, "1", post(t, s, "/", body).UID, body)
	}
	require.Equal(t, before, shedBy(shedPanic))
}

func TestWhatIsNotJSONHasAnEmptyAnswer(t *testing.T) {
	for _, kind := range []string{"", "text/plain", "application/json; charset=utf-8", strings.Repeat("x", 60<<10)} {
		s, log := testServer(t, nil, nil)
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(podReview))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, w.Body.Bytes())
		told := log.told()
		require.Len(t, told, 1)
		require.Less(t, len(told[0]), 600)
	}
}

// TestAReviewThatIsTooLargeIsRefused with its length told or not; one that just fits is read.
func TestAReviewThatIsTooLargeIsRefused(t *testing.T) {
	s, _ := testServer(t, func(_ context.Context, req admission.Request) admission.Response {
		return admission.Allowed(fmt.Sprint(len(req.Object.Raw)))
	}, nil)
	sized := func(n int) string {
		const head, tail = reviewHead + `{"uid":"1","requestKind":{},"object":"`, `"}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	for name, tt := range map[string]struct {
		size int
		body func(string) io.Reader
		code int
	}{
		"told, too large":   {maxBody + 1, func(s string) io.Reader { return strings.NewReader(s) }, http.StatusRequestEntityTooLarge},
		"untold, too large": {maxBody + 1, func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }, http.StatusRequestEntityTooLarge},
		"told, fits":        {maxBody, func(s string) io.Reader { return strings.NewReader(s) }, http.StatusOK},
		"untold, fits":      {maxBody, func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/any/path", tt.body(sized(tt.size)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			require.Equal(t, tt.code, w.Code)
			if tt.code != http.StatusOK {
				require.Equal(t, "request payload too large\n", w.Body.String())
			} else {
				require.Contains(t, w.Body.String(), `"allowed":true`)
			}
		})
	}
	t.Run("a body that breaks off is malformed", func(t *testing.T) {
		r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(podReview[:20]), failing{}))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.JSONEq(t, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"","allowed":true}}`, w.Body.String())
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("gone") }

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
		r2 := httptest.NewRequest(http.MethodPost, "/?timeout=10s", strings.NewReader(podReview))
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
		answer := post(t, s, "/?timeout=50ms", podReview)
		require.True(t, answer.Allowed)
		require.EqualValues(t, "u1", answer.UID)
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
	}
	require.EqualValues(t, 2, shedBy(shedDeadline)-before)
	require.EqualValues(t, 2, testutil.ToFloat64(podSkipped)-skipped)
	require.EqualValues(t, 2, testutil.ToFloat64(inFlight), "they run on, and count against those that may run")
	require.Len(t, log.told(), 1, "the second is not told of so soon")

	s.queueFor = time.Millisecond
	overload := shedBy(shedOverload)
	require.True(t, post(t, s, "/", podReview).Allowed)
	require.EqualValues(t, 1, shedBy(shedOverload)-overload)
	require.Contains(t, log.told()[0], "too many reviews run at once")
	close(release)
	require.Eventually(t, func() bool { return testutil.ToFloat64(inFlight) == 0 && len(s.turns) == 0 }, 5*time.Second, time.Millisecond)
}

// TestAReviewWaitsForItsTurnForAMoment, and is then reviewed.
func TestAReviewWaitsForItsTurnForAMoment(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	s, _ := testServer(t, func(context.Context, admission.Request) admission.Response {
		if calls.Add(1) == 1 {
			close(begun)
			<-release
		}
		return admission.Denied("reviewed")
	}, func(o *ServerOptions) { o.Concurrent = 1 })
	s.queueFor = time.Minute
	answers := make(chan bool, 2)
	send := func() { answers <- post(t, s, "/", podReview).Allowed }
	go send()
	<-begun
	go send()
	close(release)
	require.False(t, <-answers)
	require.False(t, <-answers)
}

// TestAPanicIsOneReviewsOwn and is told with its place.
func TestAPanicIsOneReviewsOwn(t *testing.T) {
	s, log := testServer(t, func(context.Context, admission.Request) admission.Response { panic("oh no") }, nil)
	before := shedBy(shedPanic)
	require.True(t, post(t, s, "/", podReview).Allowed)
	require.EqualValues(t, 1, shedBy(shedPanic)-before)
	told := log.told()
	require.Len(t, told, 1)
	for _, part := range []string{"oh no", "please report this", `"uid"="u1"`, "server_test.go"} {
		require.Contains(t, told[0], part)
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

// FuzzReviews: whatever arrives, the answer is an AdmissionReview, and only what decodes reaches the handler.
func FuzzReviews(f *testing.F) {
	for _, seed := range []string{podReview, "", "{}", reviewHead + "null}", reviewHead + `{"uid":"\ud800","requestKind":{},"object":{"a":[1e999,{}]}}}`, reviewHead + `{"UID":1}}`,
		reviewHead + `{"uid":"1","requestKind":{},"object":{"a":"\\\"}","b":["\\\\"]},"object":null,"obj\u0065ct":7}}`, podReview + " \n", podReview + "x"} {
		f.Add([]byte(seed))
	}
	s := NewServer(ServerOptions{Timeout: time.Minute, Clock: clock.RealClock{}, Log: logr.Discard(), Handler: admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
		return admission.Patched("", jsonpatch.NewOperation("add", "/x", r.Name)).WithWarnings(r.Namespace)
	})})
	f.Fuzz(func(t *testing.T, body []byte) {
		answer := post(t, s, "/", string(body))
		require.True(t, answer.Allowed)
		req, err := decode(body)
		require.Equal(t, err == nil, len(answer.Patch) > 0)
		if err == nil {
			require.True(t, json.Valid(body))
			require.Equal(t, req.UID, answer.UID)
		}
	})
}
