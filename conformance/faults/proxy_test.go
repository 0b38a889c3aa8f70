package faults

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/celvpa/celvpa/conformance/hang"
)

// backend is an API server that knows one pod, and sends the events that a test gives it.
type backend struct {
	*httptest.Server
	events chan metav1.WatchEvent

	mu    sync.Mutex
	asked []asked
}

// asked is a request that reached the API server.
type asked struct{ method, path, token string }

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{events: make(chan metav1.WatchEvent)}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(b.serve))
	b.EnableHTTP2 = true
	b.Config.ErrorLog = silent()
	b.StartTLS()
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

func (b *backend) serve(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.asked = append(b.asked, asked{r.Method, r.URL.Path, r.Header.Get("Authorization")})
	b.mu.Unlock()
	if r.URL.Query().Get("watch") != "" {
		b.watch(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(pod("p", "1"))
}

func (b *backend) requests() []asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
}

// between starts a proxy whose credentials are a token.
func between(t *testing.T, b *backend, seed uint64) *Proxy {
	t.Helper()
	p, err := Start(&rest.Config{Host: b.URL, BearerToken: "proxy", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, seed)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// clientOf is a client behind the proxy that repeats nothing by itself too fast to be counted.
func clientOf(t *testing.T, p *Proxy, change func(*rest.Config)) kubernetes.Interface {
	t.Helper()
	config := p.Config("")
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	change(config)
	c, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return c
}

func asIs(*rest.Config) {}

func get(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
	return err
}

func TestRequestsAreForwardedWithTheTokenOfTheirClientOrTheProxysCredentials(t *testing.T) {
	b := newBackend(t)
	p := between(t, b, 1)
	for _, token := range []string{"", "mine"} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, p.WriteKubeconfig(file, clientcmdapi.AuthInfo{Token: token}))
		config, err := clientcmd.BuildConfigFromFlags("", file)
		require.NoError(t, err)
		c, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		require.NoError(t, get(t.Context(), c))
	}
	const path = "/api/v1/namespaces/ns/pods/p"
	require.Equal(t, []asked{{"GET", path, "Bearer proxy"}, {"GET", path, "Bearer mine"}}, b.requests())
	require.Equal(t, map[string]int{"get pods": 2}, p.Requests())
	require.Empty(t, p.Counts())
}

func TestAnOutageRefusesConnectionsUntilItEnds(t *testing.T) {
	p := between(t, newBackend(t), 1)
	c := clientOf(t, p, asIs)
	require.NoError(t, get(t.Context(), c))
	end, err := p.Outage()
	require.NoError(t, err)
	require.ErrorContains(t, get(t.Context(), c), "connection refused")
	require.NoError(t, end())
	require.NoError(t, end(), "the second time does nothing")
	require.NoError(t, get(t.Context(), c))
	require.Equal(t, map[string]int{"outage": 1}, p.Counts())
}

func TestAnAPIServerThatIsGoneAnswersNothing(t *testing.T) {
	b := newBackend(t)
	p := between(t, b, 1)
	c := clientOf(t, p, asIs)
	require.NoError(t, get(t.Context(), c))
	b.CloseClientConnections()
	b.Close()
	err := create(t.Context(), c)
	require.True(t, noAnswer(err), "%v", err)
}

// noAnswer reports whether a request failed for want of an answer.
func noAnswer(err error) bool {
	return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

func TestRewriteChangesTheAnswersToSomeRequests(t *testing.T) {
	p := between(t, newBackend(t), 1)
	// This client prefers protobuf.
	c := clientOf(t, p, func(c *rest.Config) { c.ContentType = "application/vnd.kubernetes.protobuf" })
	end := p.Rewrite(On("pods", "get"), func(_ *http.Request, body []byte) []byte {
		var got corev1.Pod
		require.NoError(t, json.Unmarshal(body, &got))
		got.Labels = map[string]string{"rewritten": "yes and longer than before"}
		body, err := json.Marshal(got)
		require.NoError(t, err)
		return body
	})
	labels := func() map[string]string {
		got, err := c.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		require.NoError(t, err)
		return got.Labels
	}
	require.Equal(t, map[string]string{"rewritten": "yes and longer than before"}, labels())
	updated, err := c.CoreV1().Pods("ns").Update(t.Context(), pod("p", "1"), metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Empty(t, updated.Labels, "another verb")
	end()
	require.Empty(t, labels())
	require.Equal(t, map[string]int{"rewritten": 1}, p.Counts())
}

func TestARequestWhoseAnswerIsRewrittenIsCarriedOutWithoutItsClient(t *testing.T) {
	p := between(t, newBackend(t), 1)
	c := clientOf(t, p, asIs)
	arrived, gone := make(chan struct{}), make(chan error)
	p.Rewrite(On("pods", "create"), func(r *http.Request, body []byte) []byte {
		close(arrived)
		<-Client(r).Done()
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
		gone <- r.Context().Err()
		return body
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- create(ctx, c) }()
	<-arrived
	cancel()
	require.NoError(t, <-gone)
	require.ErrorIs(t, <-failed, context.Canceled)
}

// soon waits for a condition.
func soon(t *testing.T, what string, condition func() bool) {
	t.Helper()
	hang.Until(t, condition, what)
}

func TestAFaultMeetsItsShareOfTheRequestsOfItsKind(t *testing.T) {
	outcomes := func(seed uint64) (out []string) {
		p := between(t, newBackend(t), seed)
		c := clientOf(t, p, asIs)
		p.Inject(Fault{On: On("pods", "get"), Share: 0.2, Effects: []Effect{Answer(409), Answer(500)}})
		for range 500 {
			out = append(out, string(apierrors.ReasonForError(get(t.Context(), c))))
		}
		for range 100 {
			_, err := c.CoreV1().Pods("ns").Create(t.Context(), pod("p", ""), metav1.CreateOptions{})
			require.NoError(t, err, "another verb")
			_, err = c.CoreV1().Secrets("ns").Get(t.Context(), "p", metav1.GetOptions{})
			require.NotEqual(t, metav1.StatusReasonConflict, apierrors.ReasonForError(err), "another resource")
		}
		counts := p.Counts()
		require.InDelta(t, 50, counts["409"], 20)
		require.InDelta(t, 50, counts["500"], 20)
		require.Len(t, counts, 2)
		n := 0
		for _, reason := range out {
			if reason != "" {
				n++
			}
		}
		require.Equal(t, counts["409"]+counts["500"], n)
		return out
	}
	require.Equal(t, outcomes(7), outcomes(7), "a seed decides")
	require.NotEqual(t, outcomes(7), outcomes(8))
}

func TestEffects(t *testing.T) {
	const reached, unreached = 1, 0
	for _, c := range []struct {
		effect  Effect
		name    string
		want    func(error) bool
		reached int // requests that the API server saw
	}{
		{Answer(409), "409", apierrors.IsConflict, unreached},
		{Answer(410), "410", apierrors.IsResourceExpired, unreached},
		{Answer(429), "429", apierrors.IsTooManyRequests, unreached},
		{Answer(500), "500", apierrors.IsInternalError, unreached},
		{Answer(503), "503", apierrors.IsServiceUnavailable, unreached},
		{Answer(504), "504", apierrors.IsTimeout, unreached},
		{Hang(), "hang", func(err error) bool { return errors.Is(err, context.Canceled) }, unreached},
		{Reset(), "reset", noAnswer, unreached},
		{Lose(), "lose", noAnswer, reached},
		{Delay(time.Millisecond), "delay", func(err error) bool { return err == nil }, reached},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			p := between(t, b, 1)
			client := clientOf(t, p, asIs)
			end := p.Inject(Fault{Share: 1, Effects: []Effect{c.effect}})
			ctx, cancel := context.WithCancel(hang.Context(t))
			defer cancel()
			answered := make(chan error, 1)
			go func() { answered <- create(ctx, client) }()
			if c.name == "hang" {
				soon(t, c.name, func() bool { return p.Counts()[c.name] == 1 })
				cancel()
			}
			err := <-answered
			require.True(t, c.want(err), "%v", err)
			require.Len(t, b.requests(), c.reached)
			require.Equal(t, map[string]int{c.name: 1}, p.Counts())
			end()
			require.NoError(t, create(t.Context(), client))
			require.Equal(t, map[string]int{c.name: 1}, p.Counts())
		})
	}
}

func TestARequestThatHangsEndsWithTheFault(t *testing.T) {
	p := between(t, newBackend(t), 1)
	c := clientOf(t, p, asIs)
	end := p.Inject(Fault{Share: 1, Effects: []Effect{Hang()}})
	answered := make(chan error)
	go func() { answered <- create(t.Context(), c) }()
	soon(t, "a request that hangs", func() bool { return p.Counts()["hang"] == 1 })
	end()
	require.ErrorContains(t, <-answered, "stream error")
}

// A client tries again by itself after the time that the answer says.
func TestARetryAfterIsHeeded(t *testing.T) {
	b := newBackend(t)
	p := between(t, b, 1)
	c := clientOf(t, p, asIs)
	end := p.Inject(Fault{Share: 1, Effects: []Effect{AnswerLater(429, 1)}})
	answered := make(chan error)
	go func() { answered <- create(t.Context(), c) }()
	soon(t, "a refusal", func() bool { return p.Counts()["429 Retry-After"] == 1 })
	end()
	require.NoError(t, <-answered)
	require.Len(t, b.requests(), 1)
}

func TestOnSelectsSubresourcesByTheirName(t *testing.T) {
	p := between(t, newBackend(t), 1)
	c := clientOf(t, p, asIs)
	p.Inject(Fault{On: On("pods/status"), Share: 1, Effects: []Effect{Answer(409)}})
	_, err := c.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod("p", "1"), metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	_, err = c.CoreV1().Pods("ns").Update(t.Context(), pod("p", "1"), metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"update pods/status": 1, "update pods": 1}, p.Requests())
}

// create is a request that no client repeats by itself.
func create(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().Pods("ns").Create(ctx, &corev1.Pod{}, metav1.CreateOptions{})
	return err
}
