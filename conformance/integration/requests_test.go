package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/celvpa/celvpa/conformance/hang"
)

// requests is a proxy between an updater and the API server that counts requests by answer.
type requests struct {
	address string
	ca      []byte // clients send tokens only to whom they trust

	mu      sync.Mutex
	unheard int                         // answers that came when the process no longer waited for them
	times   map[string][]time.Time      // when those that are seen were answered
	late    time.Duration               // before what was done to a pod is answered
	hold    chan struct{}               // until it is closed no events of pods are sent; nil = all are
	seen    map[string]int              // by "resize name" and "eviction name"
	refused map[string][]*metav1.Status // what such requests are answered instead, one after the other, by "resize" and "eviction"
}

// newRequests starts the proxy, and stops it when the test ends.
func newRequests(t *testing.T) *requests {
	t.Helper()
	ours, err := rest.TransportFor(cluster.Config)
	require.NoError(t, err)
	theirs, err := rest.TransportFor(rest.AnonymousClientConfig(cluster.Config))
	require.NoError(t, err)
	server, err := url.Parse(cluster.Config.Host)
	require.NoError(t, err)
	quiet := log.New(io.Discard, "", 0) // of watches that end
	out := &requests{seen: map[string]int{}, times: map[string][]time.Time{}, refused: map[string][]*metav1.Status{}}
	pass := &httputil.ReverseProxy{Transport: whose{ours: ours, theirs: theirs}, FlushInterval: -1, ErrorLog: quiet,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(server) },
		ModifyResponse: out.pass}
	between := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := out.refusal(r.URL.Path); refused != nil {
			if r.Context().Err() == nil {
				out.note(r.URL.Path)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(refused.Code))
			_ = json.NewEncoder(w).Encode(refused)
			return
		}
		if podRequest.MatchString(r.URL.Path) { // its answer is seen although the cycle may be over by then
			ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(r.Context()), waiting{}, r.Context()), hang.Limit)
			defer cancel()
			r = r.WithContext(ctx)
		}
		pass.ServeHTTP(w, r)
	}))
	between.Config.ErrorLog = quiet
	t.Cleanup(func() {
		between.CloseClientConnections()
		between.Close()
	})
	out.address, out.ca = between.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: between.Certificate().Raw})
	return out
}

// whose forwards requests with a token unchanged, and all others as the lab's administrator.
type whose struct{ ours, theirs http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w whose) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return w.theirs.RoundTrip(r)
	}
	return w.ours.RoundTrip(r)
}

// kubeconfig writes a kubeconfig that uses the proxy, as a user; empty = the administrator.
func (r *requests) kubeconfig(t *testing.T, as *clientcmdapi.AuthInfo) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.AuthInfos["user"] = as
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: r.address, CertificateAuthorityData: r.ca}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "user"}
	config.CurrentContext = "lab"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

var podRequest = regexp.MustCompile(`^/api/v1/namespaces/[^/]+/pods/([^/]+)/(resize|eviction)$`)

// waiting is the key of the context of who waits for an answer.
type waiting struct{}

// pass forwards an answer of the API server.
func (r *requests) pass(answer *http.Response) error {
	url := answer.Request.URL
	if strings.HasSuffix(url.Path, "/pods") && url.Query().Get("watch") != "" {
		answer.Body = &heldBack{ReadCloser: answer.Body, by: r}
	}
	if !podRequest.MatchString(url.Path) {
		return nil
	}
	process := answer.Request.Context().Value(waiting{}).(context.Context)
	r.mu.Lock()
	late := r.late
	r.mu.Unlock()
	select {
	case <-time.After(late):
	case <-process.Done():
	}
	if process.Err() != nil {
		r.mu.Lock()
		r.unheard++
		r.mu.Unlock()
	}
	if process.Err() == nil || answer.StatusCode < http.StatusMultipleChoices {
		r.note(url.Path)
	}
	return nil
}

// heldBack is a watch of pods that delivers nothing while it is held.
type heldBack struct {
	io.ReadCloser
	by *requests
}

// Read implements io.Reader.
func (h *heldBack) Read(into []byte) (int, error) {
	n, err := h.ReadCloser.Read(into)
	h.by.mu.Lock()
	hold := h.by.hold
	h.by.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return n, err
}

// holdPods hides changes of pods from the process until release is called.
func (r *requests) holdPods() (release func()) {
	hold := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hold = nil
		close(hold)
	})
}

// delay delays the answers to evictions and resizes.
func (r *requests) delay(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = by
}

// note counts an answered request. A refusal that came when the cycle was over does not count: the process has not heard of it, and
// tries again. What was carried out counts in any case: the process must find out by itself.
func (r *requests) note(path string) {
	if found := podRequest.FindStringSubmatch(path); found != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		key := found[2] + " " + found[1]
		r.seen[key]++
		r.times[key] = append(r.times[key], time.Now())
	}
}

// longest is the longest time between the first and the last request of a kind for the same pod.
func (r *requests) longest(verb string) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, times := range r.times {
		if strings.HasPrefix(key, verb+" ") {
			longest = max(longest, times[len(times)-1].Sub(times[0]))
		}
	}
	return longest
}

// allHeard reports whether the process has heard all answers. On a busy machine one may come too late for its cycle.
func (r *requests) allHeard() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unheard == 0
}

// refusal is the answer to a request that must not reach the API server; nil for others.
func (r *requests) refusal(path string) *metav1.Status {
	found := podRequest.FindStringSubmatch(path)
	if found == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.refused[found[2]]
	if len(list) == 0 {
		return nil
	}
	r.refused[found[2]] = append(list[1:len(list):len(list)], list[0])
	return list[0]
}

// refuse answers requests of a kind with the given statuses in turn; without any, requests pass.
func (r *requests) refuse(verb string, with ...*metav1.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[verb] = with
}

// of counts the requests of a kind, resize or eviction, for pods of a workload; empty = all.
func (r *requests) of(verb, app string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, times := range r.seen {
		if strings.HasPrefix(key, verb+" ") && (app == "" || strings.HasPrefix(key, verb+" "+app+"-")) {
			n += times
		}
	}
	return n
}
