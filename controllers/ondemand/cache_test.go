package ondemand

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/slim"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// apiServer serves namespace shop, its changes, and no nodes, for lack of permission.
type apiServer struct {
	mu      sync.Mutex
	asked   map[string]bool // paths, with what is accepted
	changes chan string     // labels of the namespace
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path+" "+r.Header.Get("Accept")] = true
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	shop := func(labels string) string {
		return `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"shop","resourceVersion":"1","annotations":{"notes":"long"},"labels":` + labels + `}}`
	}
	refuse := func(code int, reason metav1.StatusReason) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason})
	}
	switch q := r.URL.Query(); {
	case r.URL.Path != "/api/v1/namespaces":
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	case q.Get("sendInitialEvents") != "":
		refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case q.Get("watch") == "":
		fmt.Fprint(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"1"},"items":[`+shop(`{"tier":"front"}`)+`]}`)
	default:
		w.(http.Flusher).Flush()
		select {
		case labels := <-s.changes:
			fmt.Fprint(w, `{"type":"MODIFIED","object":`+strings.Replace(shop(labels), `"resourceVersion":"1"`, `"resourceVersion":"2"`, 1)+"}\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case <-r.Context().Done():
		}
	}
}

func (s *apiServer) hasAsked(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for request := range s.asked {
		if strings.Contains(request, part) {
			return true
		}
	}
	return false
}

// TestTheCacheOfAProcess watches no kind before it is asked about it, and then only metadata of namespaces.
func TestTheCacheOfAProcess(t *testing.T) {
	api := &apiServer{asked: map[string]bool{}, changes: make(chan string)}
	server := httptest.NewServer(api)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
	})
	scheme := clientgoscheme.Scheme
	require.NoError(t, vpav1.AddToScheme(scheme))
	mapper := meta.NewDefaultRESTMapper(nil)
	for object := range slim.ByObject(true) {
		gvk, err := apiutil.GVKForObject(object, scheme)
		require.NoError(t, err)
		scope := meta.RESTScope(meta.RESTScopeNamespace)
		if gvk.Kind == "Namespace" || gvk.Kind == "Node" {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(gvk, scope)
	}
	for _, watches := range []map[string]cache.Config{nil, {"shop": {}}} { // also with --vpa-object-namespace
		objects, err := cache.New(&rest.Config{Host: server.URL}, cache.Options{Scheme: scheme, Mapper: mapper, ByObject: slim.ByObject(true), DefaultNamespaces: watches,
			NewInformer: new(slim.Pods).Informer})
		require.NoError(t, err)
		go func() { _ = objects.Start(ctx) }()
		require.True(t, objects.WaitForCacheSync(ctx))
		var mu sync.Mutex
		var logged []string
		log := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, args)
		}, funcr.Options{})
		known := New(objects, clock.RealClock{}, log)
		known.nodes().patience = 100 * time.Millisecond
		require.True(t, watches != nil || !api.hasAsked(""), "nothing was asked yet")
		labels, has := known.NamespaceLabels("shop")
		require.True(t, has)
		require.Equal(t, map[string]string{"tier": "front"}, labels)
		require.True(t, api.hasAsked("as=PartialObjectMetadataList"), "only metadata is read")
		select {
		case api.changes <- `{"tier":"batch"}`:
		case <-time.After(hang.Limit):
			t.Fatal("nobody watches")
		}
		hang.Until(t, func() bool {
			labels, _ := known.NamespaceLabels("shop")
			return labels["tier"] == "batch"
		})
		require.Nil(t, known.Node("a"))
		mu.Lock()
		require.Len(t, logged, 1)
		require.Contains(t, logged[0], `allow this process to list and watch them" "kind"="Node"`)
		mu.Unlock()
	}
}
