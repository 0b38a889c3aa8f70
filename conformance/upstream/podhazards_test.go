package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstreamserver "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/logic"
	upstreampod "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod"
	upstreamvpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/vpa"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/facts"
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

// recommendedTogether is the sum of what containers are recommended. One that nothing is recommended for
// counts with its request.
func (r *podResult) recommendedTogether(name corev1.ResourceName) (sum resource.Quantity) {
	for i := range r.In.Pod.Spec.Containers {
		c := &r.In.Pod.Spec.Containers[i]
		amounts := c.Resources.Requests
		if known := recommendedFor(r.VPA, c.Name); known != nil && r.controls(c.Name, name) {
			amounts = known.Target
		}
		sum.Add(amounts[name])
	}
	return sum
}

// ofPods reports whether an item of a LimitRange for pods has a property.
func (r *podResult) ofPods(has func(corev1.LimitRangeItem) bool) bool {
	return slices.ContainsFunc(r.In.LimitRanges, func(limitRange corev1.LimitRange) bool {
		return slices.ContainsFunc(limitRange.Spec.Limits, func(item corev1.LimitRangeItem) bool { return item.Type == corev1.LimitTypePod && has(item) })
	})
}

// belowMinimum reports whether containers are recommended less together than a LimitRange asks of a pod.
func (r *podResult) belowMinimum(name corev1.ResourceName) bool {
	sum := r.recommendedTogether(name)
	var requests, limits resource.Quantity // that upstream writes
	limited := false
	for _, c := range r.Upstream.Pod.Spec.Containers {
		requests.Add(c.Resources.Requests[name])
		limit := c.Resources.Limits[name]
		limited = limited || limit.Sign() > 0
		if request, has := c.Resources.Requests[name]; !has || !request.IsZero() { // for celvpa, the limit of a request of 0 would be 0
			limits.Add(limit)
		}
	}
	return r.ofPods(func(item corev1.LimitRangeItem) bool {
		least := item.Min[name]
		return sum.Cmp(least) < 0 || least.Sign() > 0 && (requests.Cmp(least) < 0 || limited && limits.Cmp(least) < 0)
	})
}

// namesAnotherBound reports whether both sides say what bounds a resource of a container, celvpa a LimitRange for pods at least, or
// whether the bounds that upstream names leave what is recommended.
func (r *podResult) namesAnotherBound(d podDiscrepancy) bool {
	names := func(of *podAnswer) bool {
		return slices.ContainsFunc(of.updates()[d.Index], func(item string) bool {
			return itemResource(item) == d.Resource && strings.Contains(item, " capped to ")
		})
	}
	if d.Ours {
		return strings.HasSuffix(d.Item, " in pod LimitRange") || names(&r.Upstream)
	}
	known := recommendedFor(r.VPA, r.In.Pod.Spec.Containers[d.Index].Name)
	if known == nil {
		return names(&r.Celvpa)
	}
	target, request := known.Target[d.Resource], r.Celvpa.Pod.Spec.Containers[d.Index].Resources.Requests[d.Resource]
	if p := upstreamapi.GetContainerResourcePolicy(r.In.Pod.Spec.Containers[d.Index].Name, r.VPA.Spec.ResourcePolicy); p != nil && r.boostOf(d) != nil {
		least, most := p.MinAllowed[d.Resource], p.MaxAllowed[d.Resource]
		if least.Cmp(most) > 0 && most.Cmp(target) == 0 {
			return true // without the boost the request would be the target
		}
	}
	return names(&r.Celvpa) || request.Cmp(target) == 0
}

// aboveMaximum reports whether they are recommended more than a LimitRange allows a pod, and not all have
// limits.
func (r *podResult) aboveMaximum(name corev1.ResourceName) bool {
	sum := r.recommendedTogether(name)
	lacks := func(c corev1.Container) bool { limit := c.Resources.Limits[name]; return limit.IsZero() }
	return slices.ContainsFunc(r.In.Pod.Spec.Containers, lacks) && r.ofPods(func(item corev1.LimitRangeItem) bool {
		most := item.Max[name]
		return !most.IsZero() && sum.Cmp(most) > 0
	})
}

// refusedAsUpstreamHasIt reports whether API servers refuse upstream's pod for a resource.
func (r *podResult) refusedAsUpstreamHasIt(name corev1.ResourceName) bool {
	return r.Upstream.Pod != nil && facts.FoldLimitRanges(r.In.LimitRanges).Refuses(name, r.Upstream.Pod) != ""
}

// fillsInRequests reports whether API servers fill in a request of a container, its limit, in a pod with pod-level
// resources. Upstream has it request 0.
func (r *podResult) fillsInRequests(name corev1.ResourceName) bool {
	return r.In.Pod.Spec.Resources != nil && slices.ContainsFunc(r.In.Pod.Spec.Containers, func(c corev1.Container) bool {
		_, asked := c.Resources.Requests[name]
		_, limited := c.Resources.Limits[name]
		return limited && !asked
	})
}

// lowerMaximum takes the limits of sidecars from the lowest maximum that LimitRanges have for pods, if
// that leaves any. It reports whether it did.
func (r *podResult) lowerMaximum(input map[string]any, name corev1.ResourceName) bool {
	var sidecars resource.Quantity
	for i := range r.In.Pod.Spec.InitContainers {
		if c := &r.In.Pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.Add(c.Resources.Limits[name])
		}
	}
	var lowest resource.Quantity
	var of map[string]any
	list, _ := input["limitRanges"].([]any)
	for _, item := range itemsOf(list, "Pod") {
		most, _ := item["max"].(map[string]any)
		if text, ok := most[string(name)]; ok {
			if q := resource.MustParse(fmt.Sprint(text)); !q.IsZero() && (of == nil || q.Cmp(lowest) < 0) {
				lowest, of = q, most
			}
		}
	}
	if of == nil || sidecars.Sign() <= 0 || sidecars.Cmp(lowest) >= 0 {
		return false
	}
	lowest.Sub(sidecars)
	of[string(name)] = lowest.String()
	return true
}
