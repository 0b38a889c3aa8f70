package webhook

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// webDeployment is the Deployment ns/web, whose pods have the label app=web, and a scheme that knows it and VPAs.
func webDeployment(t *testing.T) (*runtime.Scheme, *appsv1.Deployment) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, vpav1.AddToScheme(scheme))
	return scheme, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
}

// A recommendation without the bounds that could not be read might be too much.
func TestAVPAThatCannotBeReadChangesNoNewPods(t *testing.T) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
	require.NoError(t, err)
	scheme, deployment := webDeployment(t)
	for _, tt := range []struct {
		name, bound string
		patched     bool
	}{
		{name: "one that can be read", bound: "1", patched: true},
		{name: "one that cannot", bound: "1e1.5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stored vpav1.VerticalPodAutoscaler
			require.NoError(t, json.Unmarshal([]byte(`{"metadata":{"namespace":"ns","name":"v","uid":"u"},
				"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"resourcePolicy":{"containerPolicies":[{"maxAllowed":{"cpu":"`+tt.bound+`"}}]}},
				"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"4"}}]}}}`), &stored))
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(deployment).WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					if vpas, ok := list.(*vpav1.VerticalPodAutoscalerList); ok {
						vpas.Items = []vpav1.VerticalPodAutoscaler{stored}
					}
					return nil
				},
			}).Build()
			var lines []string
			h := &Handler{Client: api, Limits: &limitranges.Cache{Reader: api}, Resolver: &target.Resolver{Client: api}, Rules: func() *compile.Rulebook { return book },
				Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})}
			resp := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Create, Namespace: "ns", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
				Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"p","labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","controller":true}]},
					"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]}}`)},
			}})
			require.True(t, resp.Allowed)
			require.Equal(t, tt.patched, len(resp.Patches) > 0)
			require.Len(t, lines, 1)
			if !tt.patched {
				require.Contains(t, lines[0], "VPA skipped: it cannot be decoded completely")
				require.Contains(t, lines[0], `maxAllowed.cpu cannot be read: it is \"1e1.5\"`)
			}
		})
	}
}
