package facts_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// each joins what a format makes of so many numbers.
func each(n int, format string) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return strings.Join(out, ",")
}

// largestPod is a pod of as many containers as estimates count with, a VPA with a policy for each of them, and LimitRanges.
func largestPod(t *testing.T) facts.PodInput {
	t.Helper()
	const n = lang.MaxItems
	const resources = `"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"200m","memory":"256Mi"}}`
	in := facts.PodInput{Pod: &corev1.Pod{}, VPA: &vpav1.VerticalPodAutoscaler{}, Bounds: true, Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	read := func(text string, into any) { require.NoError(t, json.Unmarshal([]byte(text), into), text) }
	read(`{"metadata":{"namespace":"ns","name":"p","uid":"p","annotations":{"vpaObservedContainers":"`+strings.ReplaceAll(each(n, "c%d"), ",", ", ")+`",`+
		each(n, `"vpaCpuStartupBoost/c%d":"{\"requests\":{\"cpu\":\"50m\"},\"limits\":{\"cpu\":\"100m\"}}"`)+`}},
		"spec":{"nodeName":"n","resources":{"requests":{"cpu":"12","memory":"14Gi"},"limits":{"cpu":"40","memory":"40Gi"}},
		"containers":[`+each(n, `{"name":"c%d",`+resources+`}`)+`],"initContainers":[`+each(n, `{"name":"i%d","restartPolicy":"Always",`+resources+`}`)+`]},
		"status":{"phase":"Running","startTime":"2026-01-01T10:00:00Z","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T11:00:00Z"}],
		"containerStatuses":[`+each(n, `{"name":"c%d",`+resources+`,"lastState":{"terminated":{"reason":"OOMKilled","startedAt":"2026-01-01T11:55:00Z","finishedAt":"2026-01-01T11:58:00Z"}}}`)+`]}}`, in.Pod)
	const amounts = `"target":{"cpu":"250m","memory":"300Mi"},"lowerBound":{"cpu":"200m","memory":"200Mi"},"upperBound":{"cpu":"1","memory":"1Gi"}`
	read(`{"metadata":{"namespace":"ns","name":"v"},"spec":{"updatePolicy":{"updateMode":"InPlaceOrRecreate"},"startupBoost":{"cpu":{"type":"Factor","factor":2}},
		"resourcePolicy":{"podPolicies":{"minAllowed":{"cpu":"10","memory":"10Gi"},"maxAllowed":{"cpu":"20","memory":"20Gi"}},
		"containerPolicies":[`+each(n, `{"containerName":"c%d","minAllowed":{"cpu":"10m","memory":"10Mi"},"maxAllowed":{"cpu":"2","memory":"2Gi"},"memoryPerCPU":"1Gi",
			"requestToLimitRatio":{"cpu":{"type":"Factor","factor":2}}}`)+`]}},
		"status":{"recommendation":{"podRecommendation":{"target":{"cpu":"18","memory":"18Gi"},"lowerBound":{"cpu":"12","memory":"12Gi"},"upperBound":{"cpu":"20","memory":"20Gi"}},
		"containerRecommendations":[`+each(n, `{"containerName":"c%d",`+amounts+`}`)+`]}}}`, in.VPA)
	var ranges corev1.LimitRange
	read(`{"spec":{"limits":[{"type":"Container","min":{"cpu":"1m"},"max":{"cpu":"4","memory":"4Gi"},"maxLimitRequestRatio":{"cpu":"4"}},
		{"type":"Pod","max":{"cpu":"100","memory":"100Gi"},"min":{"cpu":"1"},"maxLimitRequestRatio":{"memory":"4"}}]}}`, &ranges)
	in.Limits, in.Template = facts.FoldLimitRanges([]corev1.LimitRange{ranges}), in.Pod.Spec.Containers
	return in
}

// The limits of a run are near what the shipped rules need: four times as much, but not a hundred times. A change that makes a
// shipped rule set take more fails here before it is left out anywhere.
func TestTheShippedRulesTakeAQuarterOfARunAtMost(t *testing.T) {
	gates := map[string]bool{"InPlace": true, "PerVPAConfig": true, "CPUStartupBoost": true, "MemoryPerCPURatio": true, "RequestToLimitRatio": true, "PodLevelResources": true}
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: gates})
	require.NoError(t, err)
	plan, trace := book.Default(), &engine.Trace{}

	in := largestPod(t)
	review := facts.ReviewPod(plan, in, trace)
	require.Empty(t, review.Failed)
	state := facts.PodState{Pod: in.Pod, VPA: in.VPA, Change: review.Change, Now: in.Now}
	_, failed := state.Rank(plan, trace)
	require.Empty(t, failed)
	group := facts.Group{Configured: 10, Live: 10, Running: 10, Ready: 10}
	require.NoError(t, errorOf(state.Decide(plan, group, trace)))
	require.NoError(t, errorOf(state.DecideUnboost(plan, group, trace)))
	in.Creating = true
	require.Empty(t, facts.ReviewPod(plan, in, trace).Failed)
	var containers []facts.PodContainer
	for i, c := range in.VPA.Status.Recommendation.ContainerRecommendations {
		containers = append(containers, facts.PodContainer{Name: c.ContainerName, Policy: facts.Policy(&in.VPA.Spec.ResourcePolicy.ContainerPolicies[i]),
			Bounds: bounds(t, fmt.Sprintf("cpu=%dm memory=300Mi", 100+i))})
	}
	_, failed = facts.RecommendPod(plan, containers, facts.PodPolicy(in.VPA.Spec.ResourcePolicy), bothRequests, trace)
	require.Empty(t, failed)

	steps, bytes := trace.Spent()
	require.Greater(t, len(steps), 15)
	var mostSteps, mostBytes int64
	for payer := range steps {
		t.Logf("%s: %d steps, %d bytes", payer.RuleSet, steps[payer], bytes[payer])
		mostSteps, mostBytes = max(mostSteps, steps[payer]), max(mostBytes, bytes[payer])
	}
	require.LessOrEqual(t, 4*mostSteps, int64(lang.MaxRunSteps), "steps")
	require.LessOrEqual(t, 4*mostBytes, int64(lang.MaxRunBytes), "bytes")
	require.Greater(t, 100*mostSteps, int64(lang.MaxRunSteps), "the limit protects nothing")
	require.Greater(t, 100*mostBytes, int64(lang.MaxRunBytes), "the limit protects nothing")
}

func errorOf(v engine.Verdict) error {
	if v.Err != nil {
		return v.Err
	}
	return nil
}
