package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamserver "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/logic"
	upstreampod "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod"
	upstreamvpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/vpa"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook"
)

// The hazards of UPSTREAM.md, Appendix B.

// afterPanic runs a case on which upstream panics, and returns celvpa's pod, which must be valid.
func afterPanic(t *testing.T, text string) *podAnswer {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	r, unexplained, err := judgePod(readCase(t, text), nil)
	require.NoError(t, err)
	require.NotEmpty(t, r.Upstream.Panicked, "upstream does not panic any more")
	require.Empty(t, unexplained)
	return &r.Celvpa
}

func TestHazard1AHighUpperBoundUnderAPodLimitRangeDoesNotPanic(t *testing.T) {
	answer := afterPanic(t, `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}}, {name: b, resources: {requests: {cpu: 300m}, limits: {cpu: 300m}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 400m}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 500m}, lowerBound: {cpu: 25m}, upperBound: {cpu: 100G}}]}}}}`)
	require.JSONEq(t, `{"requests":{"cpu":"250m"},"limits":{"cpu":"250m"}}`, string(mustJSON(answer.Pod.Spec.Containers[0].Resources)))
	require.JSONEq(t, `{"requests":{"cpu":"150m"},"limits":{"cpu":"150m"}}`, string(mustJSON(answer.Pod.Spec.Containers[1].Resources)))
}

func TestHazard2AContainerWithoutRequestsUnderAPodLimitRangeDoesNotPanic(t *testing.T) {
	answer := afterPanic(t, `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}}, {name: b}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 400m}}]}}], vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 500m}}]}}}}`)
	require.JSONEq(t, `{"requests":{"cpu":"400m"},"limits":{"cpu":"400m"}}`, string(mustJSON(answer.Pod.Spec.Containers[0].Resources)))
	require.JSONEq(t, `{}`, string(mustJSON(answer.Pod.Spec.Containers[1].Resources)))
}

func TestHazard3AnEmptyStartupBoostIsNone(t *testing.T) {
	for name, spec := range map[string]string{
		"of the VPA":     `{startupBoost: {}}`,
		"of a container": `{resourcePolicy: {containerPolicies: [{containerName: a, startupBoost: {}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			answer := afterPanic(t, `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}},
vpa: {spec: `+spec+`, status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m}}]}}}}}`)
			require.JSONEq(t, `{"requests":{"cpu":"250m"}}`, string(mustJSON(answer.Pod.Spec.Containers[0].Resources)))
			require.NotContains(t, answer.Pod.Annotations, annotationBoost+"a")
		})
	}
}

// TestHazard5ReviewsWithoutARequestAreAnswered sends them to both servers. A panic in upstream
// closes the connection.
func TestHazard5ReviewsWithoutARequestAreAnswered(t *testing.T) {
	calculators, err := upstreamCalculators(nil, resource.Quantity{})
	require.NoError(t, err)
	upstream := upstreamserver.NewAdmissionServer(upstreampod.NewDefaultPreProcessor(), upstreamvpa.NewDefaultPreProcessor(), limitrange.NewNoopLimitsCalculator(),
		oneVPA{&upstreamv1.VerticalPodAutoscaler{}}, calculators)
	book, err := shippedRules(gates{})
	require.NoError(t, err)
	handler := &webhook.Handler{Rules: func() *compile.Rulebook { return book }, Log: logr.Discard()}
	serve := func(h http.Handler) string {
		server := httptest.NewUnstartedServer(h)
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // it writes the panic there
		server.Start()
		t.Cleanup(server.Close)
		return server.URL
	}
	theirs, ours := serve(http.HandlerFunc(upstream.Serve)), serve(&admission.Webhook{Handler: handler})
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`
	for name, body := range map[string]string{
		"no request":                   review + `}`,
		"a request that is null":       review + `,"request":null}`,
		"a request without its kind":   review + `,"request":{"uid":"1","resource":{"version":"v1","resource":"pods"},"operation":"DELETE"}}`,
		"a request without a resource": review + `,"request":{"uid":"1"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := http.Post(theirs, "application/json", strings.NewReader(body))
			require.Error(t, err, "upstream answers now")
			resp, err := http.Post(ours, "application/json", strings.NewReader(body))
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, http.StatusOK, resp.StatusCode)
			var answer admissionv1.AdmissionReview
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
			require.NotNil(t, answer.Response)
			require.Empty(t, answer.Response.Patch)
		})
	}
}

func TestHazard19PatchesAreAlwaysTheSame(t *testing.T) {
	c := readCase(t, `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 300m, memory: 100Mi}}}]}},
vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {cpu: 200m, memory: 150Mi}}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m, memory: 200Mi}}]}}}}`)
	theirs := map[string]bool{}
	var ours []byte
	for range 100 {
		r, unexplained, err := judgePod(c, nil)
		require.NoError(t, err)
		require.Empty(t, unexplained)
		theirs[string(r.Upstream.Patch)] = true
		if ours == nil {
			ours = r.Celvpa.Patch
		}
		require.True(t, bytes.Equal(ours, r.Celvpa.Patch), "%s\n%s", ours, r.Celvpa.Patch)
	}
	require.Greater(t, len(theirs), 1, "upstream's patches have an order now")
}

func TestHazard20NothingIsWrittenWhereNothingChanges(t *testing.T) {
	r, unexplained, err := judgePod(readCase(t, `object: {pod: {spec: {containers: [{name: a}]}}}`), nil)
	require.NoError(t, err)
	require.Empty(t, unexplained)
	require.Contains(t, string(r.Upstream.Patch), "/spec/containers/0/resources")
	require.Equal(t, "Pod resources updated by v: container 0: ", r.Upstream.Pod.Annotations[annotationUpdates])
	require.NotContains(t, string(r.Celvpa.Patch), "/spec/")
	require.NotContains(t, r.Celvpa.Pod.Annotations, annotationUpdates)
	require.Equal(t, "a", r.Celvpa.Pod.Annotations[annotationObserved])
}
