package upstream

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpaclient "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// writtenByCelvpa is an object as celvpa writes it. Upstream lacks its fields podRecommendation and
// podPolicies.
const writtenByCelvpa = `
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: shop, namespace: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 2}
  resourcePolicy:
    containerPolicies:
    - {containerName: app, mode: Auto, minAllowed: {cpu: 50m}, maxAllowed: {memory: 1Gi}, controlledResources: [cpu, memory], controlledValues: RequestsOnly}
    podPolicies: {maxAllowed: {cpu: "4"}}
status:
  conditions:
  - {type: RecommendationProvided, status: "True", lastTransitionTime: "2026-01-31T12:00:00Z"}
  - {type: RulesApplied, status: "True", lastTransitionTime: "2026-01-31T12:00:00Z", message: default@1.0.0}
  recommendation:
    containerRecommendations:
    - containerName: app
      target: {cpu: 476m, memory: "380258472"}
      lowerBound: {cpu: 100m, memory: 256Mi}
      upperBound: {cpu: "2", memory: 1Gi}
      uncappedTarget: {cpu: 476m, memory: "380258472"}
    podRecommendation: {target: {cpu: 476m, memory: "380258472"}}
`

// TestUpstreamsClientReadsWhatCelvpaWrites: the client that Goldilocks and others use decodes every
// field that it knows, and ignores the pod-level ones.
func TestUpstreamsClientReadsWhatCelvpaWrites(t *testing.T) {
	var written vpav1.VerticalPodAutoscaler
	require.NoError(t, yaml.UnmarshalStrict([]byte(writtenByCelvpa), &written))
	text, err := json.Marshal(&written)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis/autoscaling.k8s.io/v1/namespaces/web/verticalpodautoscalers/shop" {
			_, _ = w.Write(text)
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	client, err := vpaclient.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	read, err := client.AutoscalingV1().VerticalPodAutoscalers("web").Get(t.Context(), "shop", metav1.GetOptions{})
	require.NoError(t, err)

	fields := func(object any) map[string]any {
		text, err := json.Marshal(object)
		require.NoError(t, err)
		var out map[string]any
		require.NoError(t, json.Unmarshal(text, &out))
		return out
	}
	want, got := fields(&written), fields(read)
	delete(want["spec"].(map[string]any)["resourcePolicy"].(map[string]any), "podPolicies")
	delete(want["status"].(map[string]any)["recommendation"].(map[string]any), "podRecommendation")
	require.Equal(t, want["spec"], got["spec"])
	require.Equal(t, want["status"], got["status"])
	require.Equal(t, "380258472", read.Status.Recommendation.ContainerRecommendations[0].Target.Memory().String())
}
