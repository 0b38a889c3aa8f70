package facts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
)

// A declared fact that nobody binds is unset for all rules.
func TestEveryFactOfAPointIsBound(t *testing.T) {
	plan, trace := shippedPlan(t), &engine.Trace{}
	none, v := facts.Policy(nil), vpa("InPlaceOrRecreate", recommendation(t, "a", "cpu=1", "cpu=1", "cpu=1"))
	facts.WindowFor(plan, "a", none, trace)
	facts.OOMSample(plan, "a", none, facts.OOM{Reported: 1, Share: 1, Peak: 1}, trace)
	plan.Decide(facts.ContainerSelect, facts.SelectFacts("a", none, facts.Seen{}), trace)
	estimate, _ := facts.EstimateFacts(v, "a", facts.Estimate{}, none, facts.NewBounds())
	plan.RunStages(facts.ContainerEstimate, estimate, trace)
	plan.RunStages(facts.ContainerRecommend, facts.RecommendFacts(plan, v, "a", none, facts.RecommendInput{}, facts.NewBounds()), trace)
	facts.RecommendPod(plan, []facts.PodContainer{podContainer(t, "a", nil, "cpu=1")}, facts.PodPolicy(nil), facts.PodRequests{}, trace)
	facts.Defaults(plan, map[string]any{"spec": map[string]any{
		"resourcePolicy": map[string]any{"containerPolicies": []any{map[string]any{"containerName": "a"}}},
	}}, trace)
	plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v), trace)
	plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), trace)

	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container(t, "a", "cpu=2", "")}, Resources: &corev1.ResourceRequirements{Requests: list(t, "cpu=2")}}}
	change, _ := facts.ResourcesForPod(plan, facts.PodInput{Pod: pod, VPA: v, Bounds: true}, trace)
	state := &facts.PodState{Pod: pod, VPA: v, Change: change, Now: time.Now()}
	state.Rank(plan, trace)
	state.Decide(plan, facts.Group{}, trace)
	state.DecideUnboost(plan, facts.Group{}, trace)

	seen := map[string]bool{
		// These points have no trace and bind all facts in one place.
		facts.VPAValidate: true, facts.PodValidate: true, facts.PodRefused: true, facts.PodEvicted: true,
		facts.ContainerPolicy: true, facts.VPAOrder: true,
	}
	for point, bound := range trace.Runs() {
		seen[point] = true
		require.Empty(t, bound.Unset(), point)
	}
	require.Empty(t, facts.ValidateFacts(v, facts.Beside{}, facts.PolicyRules{}).Unset())
	registry, err := policy.Registry()
	require.NoError(t, err)
	for _, point := range registry.Points() {
		require.True(t, seen[point.Name], point.Name)
	}
}
