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
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
)

// TestReviewsThatMakeNoSenseAreAllowedAndLogged: UPSTREAM.md §4.1 and Appendix B 5.
func TestReviewsThatMakeNoSenseAreAllowedAndLogged(t *testing.T) {
	for name, tt := range map[string]struct{ body, uid, reason string }{
		"nothing at all":                  {``, "", "not an AdmissionReview: jsontext: unexpected EOF"},
		"half a review":                   {podReview[:90], "u1", "not an AdmissionReview: jsontext: unexpected EOF"},
		"no JSON":                         {`uid: 1`, "", "not an AdmissionReview: jsontext: invalid character"},
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
		"more than one":                   {podReview + podReview, "u1", "not an AdmissionReview: jsontext: invalid character"},
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
			lines := log.written()
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], tt.reason)
			require.Contains(t, lines[0], `"uid"="`+tt.uid+`"`)
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
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
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
		lines := log.written()
		require.Len(t, lines, 1)
		require.Less(t, len(lines[0]), 600)
	}
}

// TestAReviewThatIsTooLargeIsRefused with its length declared or not; one that just fits is read.
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
		"declared, too large":   {maxBody + 1, func(s string) io.Reader { return strings.NewReader(s) }, http.StatusRequestEntityTooLarge},
		"undeclared, too large": {maxBody + 1, func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }, http.StatusRequestEntityTooLarge},
		"declared, fits":        {maxBody, func(s string) io.Reader { return strings.NewReader(s) }, http.StatusOK},
		"undeclared, fits":      {maxBody, func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }, http.StatusOK},
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
