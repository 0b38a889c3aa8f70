package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
)

// server answers reviews: it knows the tokens "reader", who may get /metrics, and "nobody".
type server struct {
	client.Writer
	asked   int
	failing error
	held    chan struct{} // reviews of other tokens than reader wait for it; nil = none does
	logs    []string
	clock   *testclock.FakePassiveClock
	guard   *Guard
}

func newServer() *server {
	s := &server{clock: testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))}
	s.guard = &Guard{Access: ToPath, Client: s, Clock: s.clock, Log: funcr.New(func(_, args string) { s.logs = append(s.logs, args) }, funcr.Options{})}
	return s
}

func (s *server) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if review, is := object.(*authenticationv1.TokenReview); is && s.held != nil && review.Spec.Token != "reader" {
		<-s.held
		return errors.New("too late")
	}
	s.asked++
	if s.failing != nil {
		return s.failing
	}
	switch review := object.(type) {
	case *authenticationv1.TokenReview:
		if foreign := review.Spec.Token == "foreign"; foreign || review.Spec.Token == "deaf" { // knows no audiences
			review.Status.Authenticated = len(review.Spec.Audiences) == 0 || !foreign
		} else if review.Spec.Token == "reader" || review.Spec.Token == "nobody" {
			review.Status.Authenticated = true
			review.Status.Audiences = review.Spec.Audiences
			review.Status.User = authenticationv1.UserInfo{Username: review.Spec.Token, Groups: []string{"g"}, UID: "u", Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}}}
		}
	case *authorizationv1.SubjectAccessReview:
		same := fmt.Sprintf("%v %v %v", review.Spec.Groups, review.Spec.UID, review.Spec.Extra) == "[g] u map[pod:[p]]"
		allowed := false
		if path := review.Spec.NonResourceAttributes; path != nil {
			allowed = path.Path == "/metrics" && path.Verb == "get"
		}
		if resource := review.Spec.ResourceAttributes; resource != nil {
			allowed = *resource == secretRecipe("soup")
		}
		review.Status.Allowed = same && review.Spec.User == "reader" && allowed
	}
	return nil
}

// get is the status and the body of an answer.
func (s *server) get(authorization, path string) (int, string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	s.guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") })).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestWhoMayReadMetrics(t *testing.T) {
	s := newServer()
	for _, tt := range []struct {
		name, authorization, path string
		code                      int
		body                      string
	}{
		{"no token", "", "/metrics", 401, "send a bearer token, such as that of a service account\n"},
		{"a password", "Basic cmVhZGVy", "/metrics", 401, "send a bearer token, such as that of a service account\n"},
		{"an empty token", "Bearer ", "/metrics", 401, "send a bearer token, such as that of a service account\n"},
		{"an unknown token", "Bearer guessed", "/metrics", 401, "the API server does not know this token\n"},
		{"a user without permission", "Bearer nobody", "/metrics", 403, "nobody may not get /metrics: grant it by a ClusterRole with nonResourceURLs\n"},
		{"a reader", "Bearer reader", "/metrics", 200, "metrics"},
		{"a reader of something else", "bearer reader", "/debug/pprof/heap", 403, "reader may not get /debug/pprof/heap: grant it by a ClusterRole with nonResourceURLs\n"},
	} {
		code, body := s.get(tt.authorization, tt.path)
		require.Equal(t, tt.code, code, tt.name)
		require.Equal(t, tt.body, body, tt.name)
	}
}

func TestAnswersAreRememberedForAWhile(t *testing.T) {
	s := newServer()
	asks := func(token string, after time.Duration) int {
		s.clock.SetTime(s.clock.Now().Add(after))
		before := s.asked
		s.get("Bearer "+token, "/metrics")
		return s.asked - before
	}
	require.Equal(t, 2, asks("reader", 0), "one review of each kind")
	require.Zero(t, asks("reader", allowedFor-time.Second))
	require.Equal(t, 2, asks("reader", time.Second))
	require.Equal(t, 1, asks("guessed", 0))
	require.Zero(t, asks("guessed", refusedFor-time.Second))
	require.Equal(t, 1, asks("guessed", time.Second+1))
	for i := range maxAnswers {
		asks(fmt.Sprint("guess", i), 0)
	}
	require.LessOrEqual(t, len(s.guard.refused.Keys()), maxAnswers)
	require.Zero(t, asks("reader", 0)+asks("reader", 0), "guesses do not displace it")
}

// TestStrangersDoNotKeepAReaderOut: 800 unknown tokens that hold up the API server had the reader refused once its answer was outdated.
func TestStrangersDoNotKeepAReaderOut(t *testing.T) {
	s := newServer()
	code, _ := s.get("Bearer reader", "/metrics")
	require.Equal(t, http.StatusOK, code)
	s.clock.SetTime(s.clock.Now().Add(allowedFor))
	s.held = make(chan struct{})
	var strangers sync.WaitGroup
	for i := range maxReviews {
		strangers.Go(func() { s.get(fmt.Sprint("Bearer guess", i), "/metrics") })
	}
	hang.Until(t, func() bool {
		s.guard.mu.Lock()
		defer s.guard.mu.Unlock()
		return s.guard.asking[false] == maxReviews
	})
	code, body := s.get("Bearer guess", "/metrics")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "too many unknown clients ask at once; try again\n", body)
	code, _ = s.get("Bearer reader", "/metrics")
	require.Equal(t, http.StatusOK, code)
	close(s.held)
	strangers.Wait()
	require.Zero(t, s.guard.asking[false]+s.guard.asking[true])
}

func TestNobodyReadsWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	s := newServer()
	s.failing = apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "", errors.New("RBAC"))
	for range 2 {
		code, body := s.get("Bearer reader", "/metrics")
		require.Equal(t, http.StatusInternalServerError, code)
		require.Equal(t, "cannot find out whether you may read this; the log says why\n", body)
	}
	require.Len(t, s.logs, 1, "once")
	require.Contains(t, s.logs[0], "allow this process to create tokenreviews.authentication.k8s.io")
	s.failing = nil
	code, _ := s.get("Bearer reader", "/metrics")
	require.Equal(t, http.StatusOK, code, "a failure is not remembered")
	for i := range 100 {
		s.failing = fmt.Errorf("failure %c", 'a'+i%26)
		s.get(fmt.Sprint("Bearer ", i), "/metrics")
	}
	require.Len(t, s.logs, 1, "whatever it says")
	s.clock.SetTime(s.clock.Now().Add(logEvery))
	s.get("Bearer other", "/metrics")
	require.Len(t, s.logs, 2)
	require.Contains(t, s.logs[1], `"failuresNotLogged"=101`)
}

// secretRecipe is a resource of which a reader may read the soup.
func secretRecipe(name string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Group: "cook.example", Resource: "recipes", Subresource: "secret", Namespace: "kitchen", Name: name, Verb: "get"}
}

func TestAccessToAResourceForTokensOfAnAudience(t *testing.T) {
	s := newServer()
	s.guard.Audiences, s.guard.TokenHint, s.guard.Headers = []string{"cook.example"}, "from the cook", []string{"X-Cook", "Authorization"}
	s.guard.Access = func(r *http.Request) Access {
		return Access{Resource: secretRecipe(r.URL.Query().Get("of")), Grant: "ask the cook"}
	}
	s.guard.Refuse = func(w http.ResponseWriter, code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, "{%s}", reason)
	}
	for _, tt := range []struct {
		name, token, of string
		code            int
		body            string
	}{
		{"no token", "", "soup", 401, "{send a bearer token, from the cook}"},
		{"a token for something else", "foreign", "soup", 401, "{the API server does not know this token, or it is not for audience cook.example: send one, from the cook}"},
		{"a token of an authenticator without audiences", "deaf", "soup", 401, "{the API server does not know this token, or it is not for audience cook.example: send one, from the cook}"},
		{"a user without permission", "nobody", "soup", 403, "{nobody may not get recipes/secret.cook.example soup in namespace kitchen: ask the cook}"},
		{"a reader", "reader", "soup", 200, "metrics"},
		{"a reader of something else", "reader", "cake", 403, "{reader may not get recipes/secret.cook.example cake in namespace kitchen: ask the cook}"},
	} {
		code, body := s.get("Bearer "+tt.token, "/recipe?of="+tt.of)
		require.Equal(t, tt.code, code, tt.name)
		require.Equal(t, tt.body, body, tt.name)
	}

	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/recipe?of=soup", nil)
	r.Header.Set("Authorization", "Bearer guessed")
	r.Header.Set("X-Cook", "Bearer reader")
	s.guard.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
	require.Equal(t, http.StatusNotFound, w.Code, "the first header that is set counts")
}
