package podreview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

func plan(t *testing.T, gates ...string) *engine.Plan {
	t.Helper()
	on := map[string]bool{}
	for _, g := range gates {
		on[g] = true
	}
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: on})
	require.NoError(t, err)
	return book.Default()
}

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	var out T
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return &out
}

func lines(t *testing.T, answer Answer) []string {
	t.Helper()
	var out []string
	for _, op := range answer.Patch {
		data, err := json.Marshal(op.Value)
		require.NoError(t, err)
		out = append(out, op.Operation+" "+op.Path+" "+string(data))
	}
	return out
}

// The example of AEP-7571: the pod and one of its containers have resources.
const workload = `{"metadata":{"name":"p","annotations":{"a":"b"}},"spec":{
	"resources":{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"200m","memory":"200Mi"}},
	"containers":[{"name":"main","resources":{"requests":{"cpu":"80m","memory":"100Mi"},"limits":{"cpu":"80m","memory":"100Mi"}}},{"name":"sidecar1"},{"name":"sidecar2"}]}}`

const recommendations = `{"metadata":{"name":"v"},"status":{"recommendation":{
	"podRecommendation":{"target":{"cpu":"50m","memory":"125Mi"}},
	"containerRecommendations":[{"containerName":"main","target":{"cpu":"30m","memory":"100Mi"}},{"containerName":"sidecar1","target":{"cpu":"20m","memory":"25Mi"}}]}}}`

func TestAPodWithResourcesAtPodLevelIsPatchedThereAndWhereItsContainersHaveRequests(t *testing.T) {
	answer := Review(plan(t, "PodLevelResources"), Request{Pod: decode[corev1.Pod](t, workload), VPA: decode[vpav1.VerticalPodAutoscaler](t, recommendations)}, nil)
	require.True(t, answer.Allowed())
	require.Equal(t, []string{
		`add /spec/resources/requests/cpu "50m"`,
		`add /spec/resources/requests/memory "125Mi"`,
		`add /spec/resources/limits/cpu "100m"`,
		`add /spec/resources/limits/memory "250Mi"`,
		`add /spec/containers/0/resources/requests/cpu "30m"`,
		`add /spec/containers/0/resources/requests/memory "100Mi"`,
		`add /spec/containers/0/resources/limits/cpu "30m"`,
		`add /spec/containers/0/resources/limits/memory "100Mi"`,
		`add /metadata/annotations/vpaUpdates "Pod resources updated by v: pod: cpu request, memory request, cpu limit, memory limit; container 0: cpu request, memory request, cpu limit, memory limit"`,
		`add /metadata/annotations/vpaObservedContainers "main, sidecar1, sidecar2"`,
	}, lines(t, answer))
	require.Empty(t, answer.Missing, "sidecar2 requests nothing")
}

// TestAmountsThatAreNotWholeAreNoReasonToLeaveAResourceAlone: API servers compare exact sums, and what they would refuse is left.
func TestAmountsThatAreNotWholeAreNoReasonToLeaveAResourceAlone(t *testing.T) {
	pod := decode[corev1.Pod](t, strings.Replace(workload, `{"name":"sidecar1"}`, `{"name":"sidecar1","resources":{"requests":{"memory":"1500m"}}}`, 1))
	answer := Review(plan(t, "PodLevelResources"), Request{Pod: pod, VPA: decode[vpav1.VerticalPodAutoscaler](t, recommendations)}, nil)
	require.Equal(t, []string{
		`add /spec/resources/requests/cpu "50m"`,
		`add /spec/resources/requests/memory "125Mi"`,
		`add /spec/resources/limits/cpu "100m"`,
		`add /spec/resources/limits/memory "250Mi"`,
		`add /spec/containers/0/resources/requests/cpu "30m"`,
		`add /spec/containers/0/resources/requests/memory "100Mi"`,
		`add /spec/containers/0/resources/limits/cpu "30m"`,
		`add /spec/containers/0/resources/limits/memory "100Mi"`,
		`add /spec/containers/1/resources/requests/memory "25Mi"`,
		`add /metadata/annotations/vpaUpdates "Pod resources updated by v: pod: cpu request, memory request, cpu limit, memory limit; container 0: cpu request, memory request, cpu limit, memory limit; container 1: memory request"`,
		`add /metadata/annotations/vpaObservedContainers "main, sidecar1, sidecar2"`,
	}, lines(t, answer))
}

func TestMissingRecommendationsAreReported(t *testing.T) {
	v := decode[vpav1.VerticalPodAutoscaler](t, `{"metadata":{"name":"v"},"status":{"recommendation":{"containerRecommendations":[{"containerName":"sidecar1","target":{"cpu":"20m"}}]}}}`)
	answer := Review(plan(t, "PodLevelResources"), Request{Pod: decode[corev1.Pod](t, workload), VPA: v}, nil)
	require.Equal(t, []Missing{{"", "cpu"}, {"", "memory"}, {"main", "cpu"}, {"main", "memory"}}, answer.Missing)
	require.Equal(t, []string{`add /metadata/annotations/vpaObservedContainers "main, sidecar1, sidecar2"`}, lines(t, answer))

	answer = Review(plan(t), Request{Pod: decode[corev1.Pod](t, workload), VPA: v}, nil)
	require.Empty(t, answer.Missing, "with the gate off nothing is missed")
}

// TestMissingRecommendationsAreReportedByResource: also where the pod, or the container, has one for the other resource.
func TestMissingRecommendationsAreReportedByResource(t *testing.T) {
	const some = `{"metadata":{"name":"v"},"status":{"recommendation":{"podRecommendation":{"target":{"cpu":"50m"}},
		"containerRecommendations":[{"containerName":"main","target":{"memory":"100Mi"}},{"containerName":"sidecar1","target":{"cpu":"20m"}}]}}}`
	for name, tt := range map[string]struct {
		vpa, pod string
		want     []Missing
	}{
		"one of each":            {some, workload, []Missing{{"", "memory"}, {"main", "cpu"}}},
		"a VPA without a status": {`{"metadata":{"name":"v"}}`, workload, []Missing{{"", "cpu"}, {"", "memory"}, {"main", "cpu"}, {"main", "memory"}}},
		"a limit at pod level":   {some, `{"spec":{"resources":{"limits":{"memory":"1Gi"}},"containers":[{"name":"main"}]}}`, []Missing{{"", "memory"}}},
		"other resources":        {some, `{"spec":{"resources":{"requests":{"cpu":"1","hugepages-2Mi":"2Mi"}},"containers":[{"name":"main","resources":{"requests":{"example.com/gpu":"1"}}}]}}`, nil},
		"all that is asked for":  {some, `{"spec":{"resources":{"requests":{"cpu":"1"}},"containers":[{"name":"main","resources":{"requests":{"memory":"1Gi"}}},{"name":"sidecar1","resources":{"requests":{"cpu":"1"}}}]}}`, nil},
		"an unknown container":   {some, `{"spec":{"resources":{"requests":{"cpu":"1"}},"containers":[{"name":"new","resources":{"requests":{"cpu":"1"}}}]}}`, []Missing{{"new", "cpu"}}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := Review(plan(t, "PodLevelResources"), Request{Pod: decode[corev1.Pod](t, tt.pod), VPA: decode[vpav1.VerticalPodAutoscaler](t, tt.vpa)}, nil)
			require.Equal(t, tt.want, answer.Missing)
		})
	}
}

// TestAPodIsNotGivenMoreThanItHasWithTheGateOff where upstream makes API servers refuse it.
func TestAPodIsNotGivenMoreThanItHasWithTheGateOff(t *testing.T) {
	v := decode[vpav1.VerticalPodAutoscaler](t, `{"metadata":{"name":"v"},"status":{"recommendation":{"containerRecommendations":[{"containerName":"main","target":{"cpu":"1"}},{"containerName":"sidecar1","target":{"cpu":"3"}}]}}}`)
	answer := Review(plan(t), Request{Pod: decode[corev1.Pod](t, workload), VPA: v}, nil)
	require.Equal(t, []string{
		`add /spec/containers/0/resources/requests/cpu "80m"`,
		`add /spec/containers/0/resources/limits/cpu "80m"`,
		`add /spec/containers/1/resources {}`,
		`add /spec/containers/1/resources/requests {}`,
		`add /spec/containers/1/resources/requests/cpu "20m"`,
		`add /metadata/annotations/vpaUpdates "Pod resources updated by v: container 0: cpu capped to fit the pod, memory: limit NOT set since recommendedRequest is nil or 0, cpu request, cpu limit; container 1: cpu capped to fit the pod, cpu request"`,
		`add /metadata/annotations/vpaObservedContainers "main, sidecar1, sidecar2"`,
	}, lines(t, answer))
}

func TestAStartupBoostNotesWhatTheContainerHad(t *testing.T) {
	pod := decode[corev1.Pod](t, `{"metadata":{"name":"p","annotations":{}},"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"0.1","memory":"100Mi"},"limits":{"cpu":"200m"}}}]}}`)
	v := decode[vpav1.VerticalPodAutoscaler](t, `{"metadata":{"name":"v"},"spec":{"startupBoost":{"cpu":{"type":"Factor","factor":3}}},"status":{"recommendation":{"containerRecommendations":[{"containerName":"a","target":{"cpu":"250m","memory":"100Mi"}}]}}}`)
	answer := Review(plan(t, "CPUStartupBoost"), Request{Pod: pod, VPA: v}, nil)
	require.Equal(t, []string{
		`add /metadata/annotations/vpaCpuStartupBoost~1a "{\"requests\":{\"cpu\":\"100m\",\"memory\":\"100Mi\"},\"limits\":{\"cpu\":\"200m\"}}"`,
		`add /spec/containers/0/resources/requests/cpu "750m"`,
		`add /spec/containers/0/resources/requests/memory "100Mi"`,
		`add /spec/containers/0/resources/limits/cpu "1500m"`,
		`add /metadata/annotations/vpaUpdates "Pod resources updated by v: container 0: memory: limit NOT set since originalLimit is nil or 0, cpu request, memory request, cpu limit"`,
		`add /metadata/annotations/vpaObservedContainers "a"`,
	}, lines(t, answer))

	off := vpav1.UpdateModeOff
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &off}
	require.Equal(t, []string{
		`add /metadata/annotations/vpaCpuStartupBoost~1a "{\"requests\":{\"cpu\":\"100m\",\"memory\":\"100Mi\"},\"limits\":{\"cpu\":\"200m\"}}"`,
		`add /spec/containers/0/resources/requests/cpu "300m"`,
		`add /spec/containers/0/resources/limits/cpu "600m"`,
		`add /metadata/annotations/vpaUpdates "Pod resources updated by v: container 0: memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit"`,
		`add /metadata/annotations/vpaObservedContainers "a"`,
	}, lines(t, Review(plan(t, "CPUStartupBoost"), Request{Pod: pod, VPA: v}, nil)), "mode Off boosts what the pod requests")
}

func TestPodsAreRefusedForWhatARuleSays(t *testing.T) {
	ranges := facts.FoldLimitRanges([]corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}})
	pod := decode[corev1.Pod](t, workload)
	answer := Review(plan(t, "PodLevelResources"), Request{Pod: pod, Limits: ranges}, nil)
	require.False(t, answer.Allowed())
	require.Equal(t, "spec.resources", answer.Causes[0].Field)
	require.Contains(t, answer.Causes[0].Message, "LimitRange of type Container: defaults")
	answer = Review(plan(t), Request{Pod: pod, Limits: ranges}, nil)
	require.True(t, answer.Allowed(), "the gate is off")
	require.Empty(t, answer.Patch)
	for _, stanza := range []string{`{}`, `{"limits":{}}`, `{"requests":{}}`, `{"requests":{},"limits":{}}`, `null`} {
		pod.Spec.Resources = nil
		require.NoError(t, json.Unmarshal([]byte(stanza), &pod.Spec.Resources))
		answer = Review(plan(t, "PodLevelResources"), Request{Pod: pod, Limits: ranges}, nil)
		require.True(t, answer.Allowed(), stanza)
	}
}

// TestPodsThatMakeNoSenseAreAnswered whatever is in them.
func TestPodsThatMakeNoSenseAreAnswered(t *testing.T) {
	v := decode[vpav1.VerticalPodAutoscaler](t, `{"metadata":{"name":"v"},"status":{"recommendation":{"containerRecommendations":[
		{"containerName":"a","target":{"cpu":"1e3","memory":"100m","example.com/x":"7"}},{"containerName":"gone","target":{"cpu":"1"}}]}}}`)
	many := `{"name":"a"}` + strings.Repeat(`,{"name":"a"}`, 499)
	plans := []*engine.Plan{plan(t), plan(t, "PodLevelResources", "RequestToLimitRatio", "CPUStartupBoost")}
	for name, pod := range map[string]string{
		"no containers":      `{"metadata":{"name":"p"}}`,
		"500 containers":     `{"metadata":{"name":"p"},"spec":{"containers":[` + many + `]}}`,
		"weird quantities":   `{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1e3","memory":"100m"},"limits":{"cpu":"0","memory":"-1"}}}]}}`,
		"negative":           `{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"-1","memory":"-1Gi"},"limits":{"cpu":"-5"}}}]}}`,
		"unknown resources":  `{"spec":{"containers":[{"name":"a","resources":{"requests":{"":"1","nvidia.com/gpu":"1"}}}]}}`,
		"enormous":           `{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"9E","memory":"9E"}}}]}}`,
		"nothing at all":     `{}`,
		"an empty pod level": `{"spec":{"resources":{},"containers":[{"name":"a"}]}}`,
	} {
		for _, p := range plans {
			answer := Review(p, Request{Pod: decode[corev1.Pod](t, pod), VPA: v}, nil)
			require.True(t, answer.Allowed(), name)
			require.Empty(t, answer.Failed, name)
			require.Empty(t, answer.Unjudged, name)
			require.NotEmpty(t, answer.Patch, name)
		}
	}
}

// TestAContainerWithALimitOfZeroIsGivenWhatTheUpdaterWants so that pods are not evicted for ever.
func TestAContainerWithALimitOfZeroIsGivenWhatTheUpdaterWants(t *testing.T) {
	pod := decode[corev1.Pod](t, `{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"0","memory":"100Mi"},"limits":{"cpu":"0"}}}]}}`)
	v := decode[vpav1.VerticalPodAutoscaler](t, `{"metadata":{"name":"v"},"status":{"recommendation":{"containerRecommendations":[{"containerName":"a","target":{"cpu":"200m","memory":"100Mi"}}]}}}`)
	change := Review(plan(t), Request{Pod: pod, VPA: v}, nil).Change.Containers[0]
	requests := change.Requests.List()
	require.Equal(t, requests, facts.ResourceList(change.Target))
	require.True(t, requests.Cpu().IsZero())
	require.Contains(t, change.Notes, "cpu capped to container limit")
}

// TestABoostedPodIsNotEvictedForItsBoost: its successor would be boosted, too, and so on for ever.
func TestABoostedPodIsNotEvictedForItsBoost(t *testing.T) {
	pod := decode[corev1.Pod](t, `{"metadata":{"name":"p","annotations":{}},"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}}]}}`)
	v := decode[vpav1.VerticalPodAutoscaler](t, `{"metadata":{"name":"v"},"spec":{"startupBoost":{"cpu":{"type":"Factor","factor":3}}},"status":{"recommendation":{"containerRecommendations":[{"containerName":"a",
		"target":{"cpu":"250m"},"lowerBound":{"cpu":"200m"},"upperBound":{"cpu":"300m"}}]}}}`)
	p := plan(t, "CPUStartupBoost")
	answer := Review(p, Request{Pod: pod, VPA: v}, nil)
	boosted := answer.Change.Containers[0].Requests.List()
	require.Equal(t, "750m", boosted.Cpu().String())
	pod.Spec.Containers[0].Resources.Requests = boosted // as the API server patches it
	pod.Annotations["vpaCpuStartupBoost/a"] = `{"requests":{"cpu":"100m"},"limits":{}}`
	pod.Status.Phase = corev1.PodRunning

	change, failed := facts.ResourcesForPod(p, facts.PodInput{Pod: pod, VPA: v, Bounds: true}, nil)
	require.Empty(t, failed)
	state := &facts.PodState{Pod: pod, VPA: v, Change: change}
	state.Rank(p, nil)
	group := facts.Group{Configured: 3, Live: 3, Running: 3}
	require.Equal(t, "eligibility/boosted", state.Decide(p, group, nil).Rule)

	pod.Annotations = nil
	change, failed = facts.ResourcesForPod(p, facts.PodInput{Pod: pod, VPA: v, Bounds: true}, nil)
	require.Empty(t, failed)
	state = &facts.PodState{Pod: pod, VPA: v, Change: change}
	state.Rank(p, nil)
	require.Equal(t, "update/evict", state.Decide(p, group, nil).Rule, "750m is above the upper bound")
}
