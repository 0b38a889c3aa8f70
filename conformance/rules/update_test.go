package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// container is a container of the pod with its recommendation.
type container struct{ requests, target, lower, upper string }

// unobserved makes admission's annotation name other containers than those the pod has.
func unobserved(s *facts.PodState) {
	s.Pod.Annotations = map[string]string{facts.AnnotationObservedContainers: "someone, else"}
}

func state(t *testing.T, spec string, containers ...container) *facts.PodState {
	t.Helper()
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	v := &vpav1.VerticalPodAutoscaler{Spec: *fromYAML[vpav1.VerticalPodAutoscalerSpec](t, spec)}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{}
	for i, c := range containers {
		name := string(rune('a' + i))
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list(t, c.requests)}})
		if c.target != "" {
			v.Status.Recommendation.ContainerRecommendations = append(v.Status.Recommendation.ContainerRecommendations, vpav1.RecommendedContainerResources{
				ContainerName: name, Target: list(t, c.target), LowerBound: list(t, c.lower), UpperBound: list(t, c.upper)})
		}
	}
	return &facts.PodState{Pod: pod, VPA: v, Now: now}
}

// priority holds the golden values of UPSTREAM.md §5.10.
func (r *rows) priority(t *testing.T) {
	tests := []struct {
		name       string
		containers []container
		want       facts.Priority
	}{
		{"much more CPU", []container{{requests: "cpu=2", target: "cpu=10"}}, facts.Priority{ScaleUp: true, ResourceDiff: 4}},
		{"half the CPU", []container{{requests: "cpu=4", target: "cpu=2"}}, facts.Priority{ResourceDiff: 0.5}},
		{"from next to nothing", []container{{requests: "cpu=10m", target: "cpu=900m"}}, facts.Priority{ScaleUp: true, ResourceDiff: 89}},
		{"below the lower bound", []container{{requests: "cpu=4", target: "cpu=10", lower: "cpu=6", upper: "cpu=14"}},
			facts.Priority{ScaleUp: true, OutsideRecommendedRange: true, ResourceDiff: 1.5}},
		{"above the upper bound", []container{{requests: "cpu=8", target: "cpu=2", lower: "cpu=1", upper: "cpu=3"}},
			facts.Priority{OutsideRecommendedRange: true, ResourceDiff: 0.75}},
		{"both resources up", []container{{requests: "cpu=3 memory=10M", target: "cpu=6 memory=20M"}}, facts.Priority{ScaleUp: true, ResourceDiff: 2}},
		{"one down, one up", []container{{requests: "cpu=4 memory=10M", target: "cpu=2 memory=20M"}}, facts.Priority{ScaleUp: true, ResourceDiff: 1.5}},
		{"two containers up", []container{{requests: "cpu=1", target: "cpu=4"}, {requests: "cpu=2", target: "cpu=8"}}, facts.Priority{ScaleUp: true, ResourceDiff: 3}},
		{"two containers down", []container{{requests: "cpu=3", target: "cpu=1"}, {requests: "cpu=7", target: "cpu=2"}}, facts.Priority{ResourceDiff: 0.7}},
		{"no request at all", []container{{target: "memory=1"}}, facts.Priority{ScaleUp: true, OutsideRecommendedRange: true}},
		{"a container without recommendation does not count", []container{{requests: "cpu=1"}, {requests: "cpu=1", target: "cpu=2"}}, facts.Priority{ScaleUp: true, ResourceDiff: 1}},
		{"memory outside its bounds", []container{{requests: "memory=4Gi", target: "memory=2Gi", lower: "memory=1Gi", upper: "memory=3Gi"}},
			facts.Priority{OutsideRecommendedRange: true, ResourceDiff: 0.5}},
	}
	plan := r.plan(t, policy.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, trace := state(t, "{}", tt.containers...), &engine.Trace{}
			s.Changes, _ = facts.ResourcesForPod(plan, s.Pod, s.VPA, nil)
			got, failed := s.Rank(plan, trace)
			require.Empty(t, failed)
			r.note(trace)
			require.InDelta(t, tt.want.ResourceDiff, got.ResourceDiff, 1e-9)
			got.ResourceDiff = tt.want.ResourceDiff
			require.Equal(t, tt.want, got)
		})
	}
}

func (r *rows) update(t *testing.T) {
	var (
		outside = container{requests: "cpu=4", target: "cpu=10", lower: "cpu=6", upper: "cpu=14"}
		inside  = container{requests: "cpu=8", target: "cpu=10", lower: "cpu=6", upper: "cpu=14"} // differs by 0.25
		near    = container{requests: "cpu=950m", target: "cpu=1", lower: "cpu=100m", upper: "cpu=2"}
		healthy = facts.Group{Configured: 4, Live: 4, Running: 4}
		mode    = func(m string) string { return "{updatePolicy: {updateMode: '" + m + "'}}" }
	)
	gate := map[string]bool{"InPlace": true}
	tests := []struct {
		name   string
		spec   string
		c      container
		group  facts.Group
		gates  map[string]bool
		change func(*facts.PodState)
		do     string
		rule   string
	}{
		{name: "Off never acts", spec: mode("Off"), c: outside, group: healthy, do: facts.DoSkip, rule: "update/mode-off"},
		{name: "Initial never acts on running pods", spec: mode("Initial"), c: outside, group: healthy, do: facts.DoSkip, rule: "update/mode-initial"},
		{name: "InPlace without its gate never evicts", spec: mode("InPlace"), c: outside, group: healthy, do: facts.DoSkip, rule: "update/in-place-gate-off"},
		{name: "a mode nobody knows", spec: mode("Sometimes"), c: outside, group: healthy, do: facts.DoSkip, rule: "update/mode-unknown"},
		{name: "no recommendation", spec: "{}", c: container{requests: "cpu=1"}, group: healthy, do: facts.DoSkip, rule: "update/no-recommendation"},
		{name: "a container that another webhook added later", spec: "{}", c: outside, group: healthy, do: facts.DoSkip, rule: "update/no-recommendation", change: unobserved},
		{name: "an annotation that is no list of names is not heeded", spec: "{}", c: outside, group: healthy, do: facts.DoEvict, rule: "update/evict",
			change: func(s *facts.PodState) {
				s.Pod.Annotations = map[string]string{facts.AnnotationObservedContainers: "a,b"}
			}},
		{name: "a list of names with ours in it", spec: "{}", c: outside, group: healthy, do: facts.DoEvict, rule: "update/evict",
			change: func(s *facts.PodState) {
				s.Pod.Annotations = map[string]string{facts.AnnotationObservedContainers: "x, a"}
			}},
		{name: "without a policy pods are evicted", spec: "{}", c: outside, group: healthy, do: facts.DoEvict, rule: "update/evict"},
		{name: "an empty mode is Recreate", spec: mode(""), c: outside, group: healthy, do: facts.DoEvict, rule: "update/evict"},
		{name: "Recreate evicts", spec: mode("Recreate"), c: outside, group: healthy, do: facts.DoEvict, rule: "update/evict"},
		{name: "Auto is Recreate", spec: mode("Auto"), c: outside, group: healthy, do: facts.DoEvict, rule: "update/evict"},
		{name: "InPlaceOrRecreate resizes", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoInPlace, rule: "update/resize"},
		{name: "InPlace with its gate resizes", spec: mode("InPlace"), c: outside, group: healthy, gates: gate, do: facts.DoInPlace, rule: "update/resize"},
		{name: "nothing is done while admission is down", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoWait, rule: "update/admission-down",
			change: func(s *facts.PodState) { s.NoAdmission = "no lease" }},
		{name: "young and within its bounds", spec: mode("Recreate"), c: inside, group: healthy, do: facts.DoSkip, rule: "update/within-recommended-range",
			change: func(s *facts.PodState) { s.Pod.Status.StartTime = &metav1.Time{Time: now.Add(-11 * time.Hour)} }},
		{name: "old, within its bounds and far off", spec: mode("Recreate"), c: inside, group: healthy, do: facts.DoEvict, rule: "update/evict",
			change: func(s *facts.PodState) { s.Pod.Status.StartTime = &metav1.Time{Time: now.Add(-12 * time.Hour)} }},
		{name: "old, within its bounds and near", spec: mode("Recreate"), c: near, group: healthy, do: facts.DoSkip, rule: "update/within-recommended-range",
			change: func(s *facts.PodState) { s.Pod.Status.StartTime = &metav1.Time{Time: now.Add(-99 * time.Hour)} }},
		{name: "within its bounds and not started", spec: mode("Recreate"), c: inside, group: healthy, do: facts.DoSkip, rule: "update/within-recommended-range"},
		{name: "only growth is allowed and it would grow", spec: "{updatePolicy: {updateMode: Recreate, evictionRequirements: [{resources: [cpu], changeRequirement: TargetHigherThanRequests}]}}",
			c: container{requests: "cpu=4 memory=1Gi", target: "cpu=10 memory=1Gi", lower: "cpu=6", upper: "cpu=14"}, group: healthy, do: facts.DoEvict, rule: "update/evict"},
		{name: "only growth is allowed and it would shrink", spec: "{updatePolicy: {updateMode: Recreate, evictionRequirements: [{resources: [cpu], changeRequirement: TargetHigherThanRequests}]}}",
			c: container{requests: "cpu=8 memory=1Gi", target: "cpu=2 memory=1Gi", lower: "cpu=1", upper: "cpu=3"}, group: healthy, do: facts.DoSkip, rule: "update/eviction-requirements-unmet"},
		{name: "all requirements must hold", spec: "{updatePolicy: {updateMode: Recreate, evictionRequirements: [{resources: [cpu, memory], changeRequirement: TargetLowerThanRequests}, {resources: [memory], changeRequirement: TargetHigherThanRequests}]}}",
			c: container{requests: "cpu=8 memory=2Gi", target: "cpu=2 memory=1Gi", lower: "cpu=1", upper: "cpu=3"}, group: healthy, do: facts.DoSkip, rule: "update/eviction-requirements-unmet"},
		{name: "a container without a request is not held back", spec: "{updatePolicy: {updateMode: Recreate, evictionRequirements: [{resources: [memory], changeRequirement: TargetLowerThanRequests}]}}",
			c: container{requests: "cpu=8", target: "cpu=2", lower: "cpu=1", upper: "cpu=3"}, group: healthy, do: facts.DoEvict, rule: "update/evict"},
		{name: "an owner that cannot be read", spec: mode("Recreate"), c: outside, group: facts.Group{Live: 4, Running: 4}, do: facts.DoSkip, rule: "update/replicas-unknown"},
		{name: "a lonely pod", spec: mode("Recreate"), c: outside, group: facts.Group{Configured: 1, Live: 1, Running: 1}, do: facts.DoSkip, rule: "update/too-few-replicas"},
		{name: "a lonely pod whose VPA allows it", spec: "{updatePolicy: {updateMode: Recreate, minReplicas: 1}}", c: outside, group: facts.Group{Configured: 1, Live: 1, Running: 1}, do: facts.DoEvict, rule: "update/evict"},
		{name: "half of four are disrupted", spec: mode("Recreate"), c: outside, group: facts.Group{Configured: 4, Live: 4, Running: 4, Disrupted: 2}, do: facts.DoWait, rule: "update/budget-spent"},
		{name: "one of four is disrupted", spec: mode("Recreate"), c: outside, group: facts.Group{Configured: 4, Live: 4, Running: 4, Disrupted: 1}, do: facts.DoEvict, rule: "update/evict"},
		{name: "one of three, tolerance below one pod", spec: mode("Recreate"), c: outside, group: facts.Group{Configured: 3, Live: 2, Running: 2}, do: facts.DoWait, rule: "update/budget-spent"},
		{name: "resizes count too", spec: mode("InPlaceOrRecreate"), c: outside, group: facts.Group{Configured: 2, Live: 2, Running: 2, Disrupted: 1}, do: facts.DoWait, rule: "update/budget-spent"},
		{name: "a pending pod is evicted whatever the budget", spec: mode("Recreate"), c: outside, group: facts.Group{Configured: 4, Live: 4, Running: 1, Disrupted: 3}, do: facts.DoEvict, rule: "update/evict-pending",
			change: func(s *facts.PodState) { s.Pod.Status.Phase = corev1.PodPending }},
		{name: "a pending pod cannot be resized", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoWait, rule: "update/pending-pod",
			change: func(s *facts.PodState) { s.Pod.Status.Phase = corev1.PodPending }},
		{name: "a resize in progress is waited for", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoWait, rule: "update/resize-under-way",
			change: func(s *facts.PodState) { s.ResizeStatus = "InProgress"; s.ResizeAge = time.Hour }},
		{name: "a resize in progress for too long", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoEvict, rule: "update/in-progress-too-long",
			change: func(s *facts.PodState) { s.ResizeStatus = "InProgress"; s.ResizeAge = time.Hour + 1 }},
		{name: "a deferred resize is waited for", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoWait, rule: "update/resize-under-way",
			change: func(s *facts.PodState) { s.ResizeStatus = "Deferred"; s.ResizeAge = 5 * time.Minute }},
		{name: "a resize deferred for too long", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoEvict, rule: "update/deferred-too-long",
			change: func(s *facts.PodState) { s.ResizeStatus = "Deferred"; s.ResizeAge = 5*time.Minute + 1 }},
		{name: "an infeasible resize", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoEvict, rule: "update/infeasible-resize",
			change: func(s *facts.PodState) { s.ResizeStatus = "Infeasible" }},
		{name: "InPlace never evicts, infeasible or not", spec: mode("InPlace"), c: outside, group: healthy, gates: gate, do: facts.DoWait, rule: "update/resize-under-way",
			change: func(s *facts.PodState) { s.ResizeStatus = "Infeasible"; s.ResizeAge = 99 * time.Hour }},
		{name: "a refused resize becomes an eviction", spec: mode("InPlaceOrRecreate"), c: outside, group: healthy, do: facts.DoEvict, rule: "update/resize-refused",
			change: func(s *facts.PodState) { s.Refused = "no room" }},
		{name: "but never in mode InPlace", spec: mode("InPlace"), c: outside, group: healthy, gates: gate, do: facts.DoWait, rule: "update/resize-refused-never-evict",
			change: func(s *facts.PodState) { s.Refused = "no room" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := r.plan(t, policy.Options{Gates: tt.gates})
			s, trace := state(t, tt.spec, tt.c), &engine.Trace{}
			if tt.change != nil {
				tt.change(s)
			}
			s.Changes, _ = facts.ResourcesForPod(plan, s.Pod, s.VPA, nil)
			_, failed := s.Rank(plan, nil)
			require.Empty(t, failed)
			verdict := s.Decide(plan, tt.group, trace)
			require.NoError(t, errorOf(verdict))
			require.Equal(t, []string{tt.rule}, r.note(trace))
			require.Equal(t, tt.do, verdict.Do)
			require.NotEmpty(t, verdict.Reason)
		})
	}
}

func errorOf(v engine.Verdict) error {
	if v.Err != nil {
		return v.Err
	}
	return nil
}
