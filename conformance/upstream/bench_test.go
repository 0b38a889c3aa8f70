package upstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/vpa"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook"
)

// BenchmarkAdmission reviews ordinary VPAs with both servers: the work for one request, from the bytes
// of the body to the bytes of the answer. All processors ask: one request after another would measure
// how fast an idle processor wakes up.
func BenchmarkAdmission(b *testing.B) {
	book, err := shippedRules(gates{})
	require.NoError(b, err)
	servers := map[string]http.Handler{
		"upstream": http.HandlerFunc(logic.NewAdmissionServer(nil, vpa.NewDefaultPreProcessor(), nil, nil, nil).Serve),
		"celvpa": webhook.NewServer(webhook.ServerOptions{Timeout: 30 * time.Second, Clock: clock.RealClock{}, Log: logr.Discard(),
			Handler: &webhook.Handler{Rules: func() *compile.Rulebook { return book }, Log: logr.Discard(), Clock: clock.RealClock{}}}),
	}
	for _, policies := range []int{1, 10, 100} {
		body := reviewOf(readCase(b, ordinaryVPA(policies)).objectJSON())
		for _, side := range []string{"upstream", "celvpa"} {
			b.Run(fmt.Sprintf("policies=%d/side=%s", policies, side), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						request := httptest.NewRequest(http.MethodPost, "/?timeout=30s", strings.NewReader(body))
						request.Header.Set("Content-Type", "application/json")
						answer := httptest.NewRecorder()
						servers[side].ServeHTTP(answer, request)
						if !strings.Contains(answer.Body.String(), `"allowed":true`) {
							b.Error(answer.Body)
							return
						}
					}
				})
			})
		}
	}
}

// reviewOf is the body of a request that asks whether a VPA may be created, as API servers write it.
func reviewOf(object []byte) string {
	return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002",
"kind":{"group":"autoscaling.k8s.io","version":"v1","kind":"VerticalPodAutoscaler"},"resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},
"requestKind":{"group":"autoscaling.k8s.io","version":"v1","kind":"VerticalPodAutoscaler"},"requestResource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},
"name":"web","namespace":"default","operation":"CREATE","userInfo":{"username":"admin","groups":["system:masters","system:authenticated"]},
"object":` + string(object) + `,"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}`
}

// ordinaryVPA is a case with a VPA that both accept as it is.
func ordinaryVPA(policies int) string {
	var list []string
	for i := range policies {
		list = append(list, fmt.Sprintf(`{containerName: app-%d, mode: Auto, minAllowed: {cpu: 50m, memory: 64Mi},
maxAllowed: {cpu: 2, memory: 4Gi}, controlledResources: [cpu, memory], controlledValues: RequestsAndLimits}`, i))
	}
	return `object: {metadata: {name: web}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web},
updatePolicy: {updateMode: Recreate, minReplicas: 2}, resourcePolicy: {containerPolicies: [` + strings.Join(list, ",\n") + `]}}}`
}
