package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestWarningsAboutProbesAreDropped: where a policy warns about VPAs by name, each probe was a line in the log and a text in memory.
func TestWarningsAboutProbesAreDropped(t *testing.T) {
	probes := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			fmt.Fprint(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":true}}`)
			return
		}
		probes++
		var vpa vpav1.VerticalPodAutoscaler
		require.NoError(t, json.NewDecoder(r.Body).Decode(&vpa))
		vpa.Annotations[probeAnnotation] = probeAnswered
		w.Header().Set("Warning", fmt.Sprintf(`299 - "label the owner of %s%d"`, vpa.GenerateName, probes))
		w.WriteHeader(http.StatusCreated)
		require.NoError(t, json.NewEncoder(w).Encode(&vpa))
	}))
	t.Cleanup(server.Close)
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	require.NoError(t, vpav1.AddToScheme(scheme))
	require.NoError(t, authorizationv1.AddToScheme(scheme))
	mapper.Add(vpav1.GroupVersion.WithKind("VerticalPodAutoscaler"), meta.RESTScopeNamespace)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), meta.RESTScopeRoot)
	probing, err := NewProbeClient(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme, Mapper: mapper})
	require.NoError(t, err)

	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	p := newProbed(t)
	p.Prober.Client = probing
	for range 3 {
		require.NoError(t, p.probe(ctx))
	}
	require.Equal(t, 3, probes)
	require.Empty(t, lines)
}
