package faults

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

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
