package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
)

// world is an API server with VPA shop/web, of which "reader" may read explanations, and a process that serves them.
type world struct {
	client.Client
	server *Server
	logs   []string
}

func newWorld(sources Sources) *world {
	elected := make(chan struct{})
	close(elected)
	w := &world{}
	w.server = &Server{Sources: sources, Client: w, Elected: elected, Instance: "pod-1", Version: "v1", Clock: clock.RealClock{},
		Namespaces: target.Namespaces{Ignored: []string{"ignored"}}, Log: funcr.New(func(_, args string) { w.logs = append(w.logs, args) }, funcr.Options{})}
	return w
}

func (w *world) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	switch review := object.(type) {
	case *authenticationv1.TokenReview:
		known := review.Spec.Token == "reader" || review.Spec.Token == "nobody"
		if known && len(review.Spec.Audiences) == 1 && review.Spec.Audiences[0] == "explain.celvpa.dev" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{Username: review.Spec.Token}}
		}
	case *authorizationv1.SubjectAccessReview:
		r := *review.Spec.ResourceAttributes
		name := r.Name
		r.Name, r.Namespace = "", ""
		review.Status.Allowed = review.Spec.User == "reader" && name != "" &&
			r == authorizationv1.ResourceAttributes{Verb: "get", Group: "autoscaling.k8s.io", Resource: "verticalpodautoscalers", Subresource: "explain"}
	}
	return nil
}

func (w *world) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if key.String() != "shop/web" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "verticalpodautoscalers"}, key.Name)
	}
	return nil
}

// get asks for a path with a token.
func (w *world) get(method, path, token string) *httptest.ResponseRecorder {
	recorder, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	if token != "" {
		r.Header.Set(TokenHeader, "Bearer "+token)
	}
	w.server.Handler().ServeHTTP(recorder, r)
	return recorder
}

// answer is the answer about shop/web.
func (w *world) answer(t *testing.T) (a answers.Answer) {
	t.Helper()
	got := w.get(http.MethodGet, Path("shop", "web"), "reader")
	require.Equal(t, http.StatusOK, got.Code, got.Body.String())
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &a))
	return a
}

// refused requires an error of the API's kind.
func refused(t *testing.T, got *httptest.ResponseRecorder, code int, says string) {
	t.Helper()
	require.Equal(t, code, got.Code, got.Body.String())
	var status metav1.Status
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &status), got.Body.String())
	require.Equal(t, says, status.Message)
	require.Equal(t, int32(code), status.Code)
	require.NotEmpty(t, status.Reason)
	require.Equal(t, "verticalpodautoscalers/explain", status.Details.Kind)
}

// says is a source that says one thing.
func says[T any](one T) Source[T] {
	return func(context.Context, string, string) (T, error) { return one, nil }
}

func all() Sources {
	return Sources{Recommender: says(answers.Recommender{Known: true, Process: answers.Process{Rules: answers.Rules{Digest: "abc"}}}),
		Updater: says(answers.Updater{NoAdmission: "x"}), Admission: says(answers.Admission{Registered: "y"})}
}

func TestWhatIsRefused(t *testing.T) {
	w := newWorld(all())
	hint := "send %s, such as that of `kubectl create token celvpa-explain --audience=explain.celvpa.dev` in celvpa's namespace"
	for _, tt := range []struct {
		name, method, path, token string
		code                      int
		says                      string
	}{
		{"no token", "GET", Path("shop", "web"), "", 401, strings.ReplaceAll(hint, "%s", "a bearer token")},
		{"a token for something else", "GET", Path("shop", "web"), "guessed", 401,
			"the API server does not know this token, or it is not for audience explain.celvpa.dev: " + strings.ReplaceAll(hint, "%s", "one")},
		{"a user without permission", "GET", Path("shop", "web"), "nobody", 403,
			"nobody may not get verticalpodautoscalers/explain.autoscaling.k8s.io web in namespace shop: grant it to this user by a Role in that namespace, or by a ClusterRole"},
		{"an unknown VPA", "GET", Path("shop", "wbe"), "reader", 404, "there is no VerticalPodAutoscaler shop/wbe; `kubectl get vpa -n shop` lists those that are there"},
		{"a namespace that is not served", "GET", Path("ignored", "web"), "reader", 404,
			"this process does not serve namespace ignored: see --vpa-object-namespace and --ignored-vpa-object-namespaces"},
		{"another method", "POST", Path("shop", "web"), "reader", 405, "explanations can only be read, by GET"},
		{"another path", "GET", "/explain/v1/namespaces/shop/verticalpodautoscalers", "reader", 404,
			"nothing is served here; get /explain/v1/namespaces/NAMESPACE/verticalpodautoscalers/NAME"},
	} {
		before := counted(tt.code)
		refused(t, w.get(tt.method, tt.path, tt.token), tt.code, tt.says)
		require.Equal(t, before+1, counted(tt.code), tt.name)
	}
}

func counted(code int) float64 {
	return testutil.ToFloat64(requests.WithLabelValues(strconv.Itoa(code)))
}

func TestEachComponentOfAProcessAnswers(t *testing.T) {
	a := newWorld(all()).answer(t)
	require.Empty(t, a.Unknown)
	require.True(t, a.Recommender.Known)
	require.Equal(t, "x", a.Updater.NoAdmission)
	require.Equal(t, "y", a.Admission.Registered)
	for component, p := range map[string]answers.Process{"recommender": a.Recommender.Process, "updater": a.Updater.Process, "admission-controller": a.Admission.Process} {
		require.Equal(t, component, p.Component)
		require.Equal(t, "pod-1", p.Instance)
		require.Equal(t, "v1", p.Version)
		require.True(t, p.Leads)
		require.WithinDuration(t, time.Now(), p.Now, time.Minute)
	}
	require.Equal(t, "abc", a.Recommender.Rules.Digest, "that of the source")

	only := newWorld(Sources{Updater: all().Updater}).answer(t)
	require.NotNil(t, only.Updater)
	require.Nil(t, only.Recommender)
	require.Nil(t, only.Admission)
}

func TestAReplicaThatDoesNotLeadSaysSo(t *testing.T) {
	w := newWorld(all())
	w.server.Elected = make(chan struct{})
	a := w.answer(t)
	require.False(t, a.Recommender.Leads)
	require.False(t, a.Recommender.Known, "and nothing else")
	require.Equal(t, "pod-1", a.Recommender.Instance)
	require.False(t, a.Updater.Leads)
	require.Empty(t, a.Updater.NoAdmission)
	require.True(t, a.Admission.Leads, "each replica of it decides")
	require.Equal(t, "y", a.Admission.Registered)
}

func TestASourceThatFailsSparesTheOthers(t *testing.T) {
	sources := all()
	sources.Recommender = func(context.Context, string, string) (a answers.Recommender, _ error) { panic("boom") }
	sources.Updater = func(context.Context, string, string) (a answers.Updater, _ error) {
		return a, errors.New("out of order")
	}
	w := newWorld(sources)
	a := w.answer(t)
	require.Equal(t, []string{"recommender: a bug in celvpa, please report it: panic: boom; the log says where", "updater: out of order"}, a.Unknown)
	require.Nil(t, a.Recommender)
	require.Nil(t, a.Updater)
	require.NotNil(t, a.Admission)
	require.Contains(t, strings.Join(w.logs, "\n"), `"panic"="boom"`)

	w = newWorld(Sources{Recommender: sources.Recommender})
	refused(t, w.get(http.MethodGet, Path("shop", "web"), "reader"), 500, a.Unknown[0])
}

func TestASlowSourceKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		sources := all()
		sources.Recommender = func(context.Context, string, string) (a answers.Recommender, _ error) {
			<-stuck // whatever the context says
			return a, nil
		}
		w := newWorld(sources)
		handler := w.server.Handler()
		ask := func() *httptest.ResponseRecorder {
			recorder, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, Path("shop", "web"), nil)
			r.Header.Set("Authorization", "Bearer reader")
			handler.ServeHTTP(recorder, r)
			return recorder
		}
		for range maxConcurrent {
			start := time.Now()
			got := ask()
			require.Equal(t, timeLimit, time.Since(start))
			require.Equal(t, http.StatusOK, got.Code)
			var a answers.Answer
			require.NoError(t, json.Unmarshal(got.Body.Bytes(), &a))
			require.Equal(t, []string{"recommender: it has not answered within 4s"}, a.Unknown)
			require.NotNil(t, a.Updater)
		}
		refused(t, ask(), 503, "4 explanations are being made already, and none of them ended within 4s; try again")
		close(stuck)
		synctest.Wait()
		require.Equal(t, http.StatusOK, ask().Code)

		only := newWorld(Sources{Recommender: func(ctx context.Context, _, _ string) (a answers.Recommender, _ error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return a, ctx.Err()
		}})
		refused(t, only.get(http.MethodGet, Path("shop", "web"), "reader"), 504, "recommender: it has not answered within 4s")
		time.Sleep(time.Second) // it ends, too
	})
}

func TestALargeAnswerLosesTheStepsOfRules(t *testing.T) {
	steps := func(text string) []engine.Step { return []engine.Step{{Rule: strings.Repeat(text, 5000)}} }
	large := func() *answers.Answer {
		return &answers.Answer{Recommender: &answers.Recommender{Containers: []answers.Container{{Name: "a", Steps: steps("a")}, {Name: "b", Steps: steps("b")}}},
			Updater: &answers.Updater{Pods: []answers.RunningPod{{PlannedPod: answers.PlannedPod{Pod: "shop/web-1", Steps: steps("c")}}}}}
	}
	a := large()
	whole, err := encode(a, maxAnswer)
	require.NoError(t, err)
	require.Equal(t, large(), a)

	text, err := encode(a, len(whole)-1)
	require.NoError(t, err)
	require.Less(t, len(text), len(whole)-4000)
	require.Len(t, a.Unknown, 1)
	require.Regexp(t, `^1 lists of rule steps are left out: with them the answer has \d+ bytes, and \d+ is the most$`, a.Unknown[0])
	require.NotEmpty(t, a.Recommender.Containers[1].Steps)
	require.Empty(t, a.Updater.Pods[0].Steps, "the last ones go first")

	a = large()
	text, err = encode(a, 8000)
	require.NoError(t, err)
	require.Less(t, len(text), 8000)
	require.NotEmpty(t, a.Recommender.Containers[0].Steps)
	require.Empty(t, a.Recommender.Containers[1].Steps)

	_, err = encode(large(), 100)
	require.ErrorContains(t, err, "even without the steps of the rules, and 100 is the most")
}

// TestOverHTTPS is what a client sees: it compresses, and takes tokens in either header.
func TestOverHTTPS(t *testing.T) {
	server := httptest.NewTLSServer(newWorld(all()).server.Handler())
	defer server.Close()
	for _, header := range []string{"Authorization", TokenHeader} {
		r, err := http.NewRequest(http.MethodGet, server.URL+Path("shop", "web"), nil)
		require.NoError(t, err)
		r.Header.Set(header, "Bearer reader")
		got, err := server.Client().Do(r)
		require.NoError(t, err)
		require.True(t, got.Uncompressed)
		require.Equal(t, "application/json", got.Header.Get("Content-Type"))
		body, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"component":"updater"`)
		got.Body.Close()
	}
}
