package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine/compile"
)

// TestQuantitiesThatTakeForEverHoldNobodyUp: apimachinery's parser is busy with 1e-999999999 for many minutes, and cannot be
// interrupted. Before, each of these reviews took a core and a turn for as long.
func TestQuantitiesThatTakeForEverHoldNobodyUp(t *testing.T) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
	require.NoError(t, err)
	scheme, deployment := webDeployment(t)
	const (
		spec  = `{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Recreate"}}`
		owned = `"metadata":{"name":"p","namespace":"ns","labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","controller":true}]}`
	)
	status := func(quantity string) string {
		return `{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":` + quantity + `}}]}}`
	}
	vpa := func(spec, status string) string {
		return `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"v"},"spec":` + spec + `,"status":` + status + `}`
	}
	pod := func(cpu string) string {
		return `{` + owned + `,"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":` + cpu + `}}}]}}`
	}
	long := `"` + strings.Repeat("9", 1<<20) + `"`
	tests := map[string]struct {
		pod         bool
		object, old string
		allowed     bool
		says        string // the refusal, or a line of the log
	}{
		"the status of a new VPA":              {object: vpa(spec, status(`"1e-999999999"`)), allowed: true},
		"one that is a number":                 {object: vpa(spec, status(`1e-999999999`)), allowed: true},
		"a megabyte of digits":                 {object: vpa(spec, status(long)), allowed: true},
		"a status of another kind":             {object: vpa(spec, `[]`), allowed: true},
		"the status of what a VPA replaces":    {object: vpa(spec, `{}`), old: vpa(spec, status(`"1e-999999999"`)), allowed: true},
		"an update of both":                    {object: vpa(spec, status(`"1e-999999999"`)), old: vpa(spec, status(`"1e-999999999"`)), allowed: true},
		"a status written twice":               {object: strings.Replace(vpa(spec, status(`"1"`)), `"spec"`, `"status":`+status(`"1e-999999999"`)+`,"spec"`, 1), allowed: true},
		"a bound":                              {object: vpa(`{"resourcePolicy":{"containerPolicies":[{"containerName":"app","maxAllowed":{"cpu":"1e-999999999"}}]}}`, `{}`), says: `spec.resourcePolicy.containerPolicies[0].maxAllowed`},
		"a bound with a megabyte of digits":    {object: vpa(`{"resourcePolicy":{"containerPolicies":[{"containerName":"app","maxAllowed":{"cpu":`+long+`}}]}}`, `{}`), says: `spec.resourcePolicy.containerPolicies[0].maxAllowed`},
		"a bound of an extended resource":      {object: vpa(`{"resourcePolicy":{"containerPolicies":[{"containerName":"app","minAllowed":{"a/b":"1e-999999999"},"maxAllowed":{"a/b":" 1e999999999"}}]}}`, `{}`), says: `Allowed`},
		"a boost":                              {object: vpa(`{"startupBoost":{"cpu":{"type":"Quantity","quantity":"1e-999999999"}}}`, `{}`), says: `spec.startupBoost.cpu.quantity`},
		"memory per CPU":                       {object: vpa(`{"resourcePolicy":{"containerPolicies":[{"containerName":"app","memoryPerCPU":"1e999999999"}]}}`, `{}`), says: `memoryPerCPU`},
		"a ratio in the AEP's spelling":        {object: vpa(`{"resourcePolicy":{"containerPolicies":[{"containerName":"app","RequestToLimitRatio":{"cpu":{"type":"Quantity","quantity":"1e999999999"}}}]}}`, `{}`), says: `RequestToLimitRatio`},
		"a request":                            {pod: true, object: pod(`"1e-999999999"`), allowed: true, says: `spec.containers[0].resources.requests.cpu is \"1e-999999999\": an exponent has at most three digits`},
		"a request that is a number":           {pod: true, object: pod(`1e-999999999`), allowed: true, says: `spec.containers[0].resources.requests.cpu is \"1e-999999999\"`},
		"a request with a megabyte of digits":  {pod: true, object: pod(long), allowed: true, says: `a quantity has at most 64 characters`},
		"a request of what a pod shares":       {pod: true, object: strings.Replace(pod(`"1"`), `"spec":{`, `"spec":{"resources":{"limits":{"memory":"1e999999999"}},`, 1), allowed: true, says: `spec.resources.limits.memory`},
		"a label that looks like one":          {pod: true, object: strings.Replace(pod(`"1"`), `"app":"web"`, `"app":"web","commit":"1e-999999999"`, 1), allowed: true},
		"an annotation about a boost":          {pod: true, object: strings.Replace(pod(`"1"`), `"labels"`, `"annotations":{"vpaCpuStartupBoost/app":"{\"requests\":{\"cpu\":\"1e-999999999\"},\"limits\":{}}"},"labels"`, 1), allowed: true},
		"a request that is escaped, long form": {pod: true, object: pod(`"1\u0065-999999999"`), allowed: true, says: `spec.containers[0].resources.requests.cpu`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var lines []string
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(deployment).Build()
			h := &Handler{Client: api, Limits: &limitranges.Cache{Reader: api}, Resolver: &target.Resolver{Client: api}, Rules: func() *compile.Rulebook { return book },
				Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
			request := map[string]any{"uid": "1", "operation": admissionv1.Create, "namespace": "ns", "name": "v", "object": json.RawMessage(tt.object),
				"requestKind": map[string]string{"kind": "VerticalPodAutoscaler"}, "resource": map[string]string{"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"}}
			if tt.pod {
				request["requestKind"], request["resource"] = map[string]string{"kind": "Pod"}, map[string]string{"version": "v1", "resource": "pods"}
			}
			if tt.old != "" {
				request["operation"], request["oldObject"] = admissionv1.Update, json.RawMessage(tt.old)
			}
			body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
			require.NoError(t, err)
			var resp admission.Response
			hang.Within(t, func() {
				review, err := decode(body)
				require.NoError(t, err)
				resp = h.Handle(t.Context(), review)
			})
			require.Equal(t, tt.allowed, resp.Allowed, resp.Result)
			if !tt.allowed {
				require.Contains(t, resp.Result.Message, tt.says)
				require.Less(t, len(resp.Result.Message), 10000)
			} else if tt.says != "" {
				require.Contains(t, strings.Join(lines, "\n"), tt.says)
			}
			for _, line := range lines {
				require.Less(t, len(line), 10000)
			}
		})
	}
}
