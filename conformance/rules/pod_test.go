package rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

func (r *rows) admit(t *testing.T) {
	plan := r.plan(t, policy.Options{})
	for _, row := range []struct{ spec, do, rule string }{
		{"{}", facts.DoApply, "admission-mode/applied"},
		{"{updatePolicy: {updateMode: Initial}}", facts.DoApply, "admission-mode/applied"},
		{"{updatePolicy: {updateMode: InPlace}}", facts.DoApply, "admission-mode/applied"}, // AEP-8818: also with its gate off
		{"{updatePolicy: {updateMode: 'Off'}}", facts.DoIgnore, "admission-mode/mode-off"},
	} {
		trace := &engine.Trace{}
		v := &vpav1.VerticalPodAutoscaler{Spec: *fromYAML[vpav1.VerticalPodAutoscalerSpec](t, row.spec)}
		require.Equal(t, row.do, plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), trace).Do, row.spec)
		require.Equal(t, []string{row.rule}, r.note(trace), row.spec)
	}
}

func (r *rows) updateMode(t *testing.T) {
	plan := r.plan(t, policy.Options{})
	for _, row := range []struct{ spec, do, rule string }{
		{"{}", facts.DoApply, "update-mode/applied"},
		{"{updatePolicy: {updateMode: InPlaceOrRecreate}}", facts.DoApply, "update-mode/applied"},
		{"{updatePolicy: {updateMode: Initial}}", facts.DoIgnore, "update-mode/not-in-this-mode"},
		{"{updatePolicy: {updateMode: 'Off'}}", facts.DoIgnore, "update-mode/not-in-this-mode"},
	} {
		trace := &engine.Trace{}
		v := &vpav1.VerticalPodAutoscaler{Spec: *fromYAML[vpav1.VerticalPodAutoscalerSpec](t, row.spec)}
		require.Equal(t, row.do, plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v), trace).Do, row.spec)
		require.Equal(t, []string{row.rule}, r.note(trace), row.spec)
	}
}

// onePod is a pod with one container called a, and the VPA that recommends a target for it.
func onePod(t *testing.T, requests, limits, target, containerPolicies string) (*corev1.Pod, *vpav1.VerticalPodAutoscaler) {
	t.Helper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "a", Resources: corev1.ResourceRequirements{Requests: list(t, requests), Limits: list(t, limits)},
	}}}}
	v := &vpav1.VerticalPodAutoscaler{}
	if containerPolicies != "" {
		p := containerPolicy(t, containerPolicies)
		p.ContainerName = "*"
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{*p}}
	}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
		{ContainerName: "a", Target: list(t, target)},
		{ContainerName: "gone", Target: list(t, "cpu=7")}, // a container that the pod does not have
	}}
	return pod, v
}

func (r *rows) podResources(t *testing.T) {
	const (
		noCPULimit    = "cpu: limit NOT set since originalLimit is nil or 0"
		noMemoryLimit = "memory: limit NOT set since originalLimit is nil or 0"
	)
	tests := []struct {
		name             string
		requests, limits string
		target           string
		policy           string
		wantRequests     string
		wantLimits       string
		notes            []string
	}{
		{name: "limits keep their proportion", requests: "cpu=100m memory=100Mi", limits: "cpu=300m memory=200Mi", target: "cpu=250m memory=200Mi",
			wantRequests: "cpu=250m memory=200Mi", wantLimits: "cpu=750m memory=400Mi"},
		{name: "proportions round down", requests: "cpu=3m memory=3", limits: "cpu=7m memory=7", target: "cpu=10m memory=10",
			wantRequests: "cpu=10m memory=10", wantLimits: "cpu=23m memory=23"},
		{name: "equal stays equal", requests: "cpu=100m memory=100Mi", limits: "cpu=100m memory=100Mi", target: "cpu=333m memory=77Mi",
			wantRequests: "cpu=333m memory=77Mi", wantLimits: "cpu=333m memory=77Mi"},
		{name: "a limit without request follows the request", limits: "memory=1Gi", target: "cpu=100m memory=200Mi",
			wantRequests: "cpu=100m memory=200Mi", wantLimits: "memory=200Mi", notes: []string{noCPULimit}},
		{name: "no limits: none set and nothing said", requests: "cpu=100m", target: "cpu=250m memory=1Gi", wantRequests: "cpu=250m memory=1Gi"},
		{name: "one limit: the other's absence is told", requests: "cpu=100m memory=100Mi", limits: "cpu=200m", target: "cpu=250m memory=1Gi",
			wantRequests: "cpu=250m memory=1Gi", wantLimits: "cpu=500m", notes: []string{noMemoryLimit}},
		{name: "no CPU recommended", requests: "cpu=100m memory=100Mi", limits: "cpu=200m memory=200Mi", target: "memory=1Gi",
			wantRequests: "memory=1Gi", wantLimits: "memory=2Gi", notes: []string{"cpu: limit NOT set since recommendedRequest is nil or 0"}},
		{name: "no memory recommended", requests: "cpu=100m memory=100Mi", limits: "cpu=200m memory=200Mi", target: "cpu=1",
			wantRequests: "cpu=1", wantLimits: "cpu=2", notes: []string{"memory: limit NOT set since recommendedRequest is nil or 0"}},
		{name: "no overflow wraps", requests: "cpu=1m memory=1", limits: "cpu=9223372036854775m memory=9223372036854775807", target: "cpu=100 memory=100Gi",
			wantRequests: "cpu=100 memory=100Gi", wantLimits: "cpu=9223372036854775807m memory=9223372036854775807"},
		{name: "requests only", requests: "cpu=100m memory=100Mi", limits: "cpu=300m memory=300Mi", target: "cpu=250m memory=200Mi", policy: "{controlledValues: RequestsOnly}",
			wantRequests: "cpu=250m memory=200Mi"},
		{name: "requests only, never above the limit, not even for minAllowed", requests: "cpu=100m memory=100Mi", limits: "cpu=200m memory=200Mi",
			target: "cpu=800m memory=500Mi", policy: "{controlledValues: RequestsOnly, minAllowed: {cpu: 600m}}",
			wantRequests: "cpu=200m memory=200Mi", notes: []string{"cpu capped to container limit", "memory capped to container limit"}},
		{name: "a policy newer than the recommendation", requests: "cpu=100m memory=100Mi", target: "cpu=800m memory=50Mi",
			policy: "{maxAllowed: {cpu: 500m}, minAllowed: {memory: 64Mi}}", wantRequests: "cpu=500m memory=64Mi",
			notes: []string{"cpu capped to maxAllowed", "memory capped to minAllowed"}},
		{name: "and the other way round", requests: "cpu=100m memory=100Mi", target: "cpu=50m memory=5Gi",
			policy: "{maxAllowed: {memory: 1Gi}, minAllowed: {cpu: 64m}}", wantRequests: "cpu=64m memory=1Gi",
			notes: []string{"cpu capped to minAllowed", "memory capped to maxAllowed"}},
	}
	plan := r.plan(t, policy.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod, v := onePod(t, tt.requests, tt.limits, tt.target, tt.policy)
			trace := &engine.Trace{}
			changes, failed := facts.ResourcesForPod(plan, pod, v, trace)
			require.Empty(t, failed)
			require.Len(t, changes, 1, "the container that is gone is ignored")
			r.note(trace)
			require.Equal(t, tt.wantRequests, show(changes[0].Requests))
			require.Equal(t, tt.wantLimits, show(changes[0].Limits))
			require.Equal(t, strings.Join(tt.notes, "; "), strings.Join(changes[0].Notes, "; "))
		})
	}
}
