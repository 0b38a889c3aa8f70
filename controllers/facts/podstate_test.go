package facts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

func shippedPlan(t *testing.T) *engine.Plan {
	t.Helper()
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
	require.NoError(t, err)
	return book.Default()
}

// list reads "cpu=100m memory=1Gi".
func list(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	var out corev1.ResourceList
	for _, part := range strings.Fields(text) {
		name, value, ok := strings.Cut(part, "=")
		require.True(t, ok, text)
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return out
}

// show is the inverse of list, cpu first.
func show(l corev1.ResourceList) string {
	var parts []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := l[name]; ok {
			parts = append(parts, string(name)+"="+q.String())
		}
	}
	return strings.Join(parts, " ")
}

func container(t *testing.T, name, requests, limits string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list(t, requests), Limits: list(t, limits)}}
}

func recommendation(t *testing.T, name, target, lower, upper string) vpav1.RecommendedContainerResources {
	return vpav1.RecommendedContainerResources{ContainerName: name, Target: list(t, target), LowerBound: list(t, lower), UpperBound: list(t, upper)}
}

func vpa(mode vpav1.UpdateMode, recommendations ...vpav1.RecommendedContainerResources) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{}
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: recommendations}
	return v
}

func TestAPodsContainersAreGivenTheirRecommendations(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		container(t, "a", "cpu=100m memory=100Mi", "cpu=200m"),
		container(t, "b", "cpu=1", ""),
		container(t, "c", "cpu=1", "cpu=2"),
	}}}
	// What the node granted c wins over its spec.
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: &corev1.ResourceRequirements{Requests: list(t, "cpu=2"), Limits: list(t, "cpu=8")}}}
	v := vpa("Recreate",
		recommendation(t, "gone", "cpu=7", "", ""), // not in the pod
		recommendation(t, "c", "cpu=3", "cpu=1", "cpu=9"),
		recommendation(t, "a", "cpu=800m memory=1Gi", "cpu=600m", "cpu=900m"))
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "a", MaxAllowed: list(t, "cpu=500m")}}}

	trace := &engine.Trace{}
	got, failed := facts.ResourcesForPod(shippedPlan(t), facts.PodInput{Pod: pod, VPA: v, Bounds: true}, trace)
	changes := got.Containers
	require.Empty(t, failed)
	require.Len(t, changes, 3, "one for each container that the pod has")

	a, b, c := changes[0], changes[1], changes[2]
	require.Equal(t, "cpu=500m memory=1Gi", show(a.Requests.List()))
	require.Equal(t, "cpu=1", show(a.Limits.List()), "in proportion")
	require.Equal(t, []string{"cpu capped to maxAllowed", "memory: limit NOT set since originalLimit is nil or 0"}, a.Notes, "of both points")
	for bound, record := range map[string]*lang.Record{"target": a.Target, "lower": a.LowerBound, "upper": a.UpperBound} {
		n, _ := record.Int("cpu")
		require.EqualValues(t, 500, n, "the policy holds the %s too", bound)
	}
	require.False(t, b.Known)
	require.Nil(t, got.Pod, "there is nothing at pod level")
	require.Empty(t, b.Requests)
	require.Equal(t, 2, c.Index)
	require.Equal(t, "cpu=12", show(c.Limits.List()), "8/2 of what is requested")
	_, traced := trace.Last("a", "recommended.cpu")
	require.True(t, traced)

	got, failed = facts.ResourcesForPod(shippedPlan(t), facts.PodInput{Pod: pod, VPA: &vpav1.VerticalPodAutoscaler{}}, nil)
	require.Empty(t, failed)
	require.False(t, got.Containers[0].Known, "no recommendation yet")
}

// It varies one fact at a time; conformance/rules tests the rules themselves.
func TestWhatTheUpdaterSeesReachesTheRules(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	plan := shippedPlan(t)
	healthy := facts.Group{Configured: 4, Live: 4, Running: 4}
	within := func(s *facts.PodState) {
		s.Pod.Spec.Containers[0] = container(t, "a", "cpu=8", "") // differs by a quarter
	}
	tests := []struct {
		name   string
		mode   vpav1.UpdateMode
		group  facts.Group
		change func(*facts.PodState)
		want   string
	}{
		{name: "as it is", mode: "Recreate", group: healthy, want: "update/evict"},
		{name: "the mode", mode: "Off", group: healthy, want: "eligibility/mode-off"},
		{name: "containers that admission did not see", mode: "Recreate", group: healthy, want: "eligibility/no-recommendation",
			change: func(s *facts.PodState) {
				s.Pod.Annotations = map[string]string{facts.AnnotationObservedContainers: "someone, else"}
			}},
		{name: "a container that it saw", mode: "Recreate", group: healthy, want: "update/evict",
			change: func(s *facts.PodState) {
				s.Pod.Annotations = map[string]string{facts.AnnotationObservedContainers: "x, a"}
			}},
		{name: "an annotation that is not a list of names is not heeded", mode: "Recreate", group: healthy, want: "update/evict",
			change: func(s *facts.PodState) {
				s.Pod.Annotations = map[string]string{facts.AnnotationObservedContainers: "x,y"}
			}},
		{name: "requests within the bounds, no start", mode: "Recreate", group: healthy, want: "eligibility/within-recommended-range", change: within},
		{name: "requests within the bounds, started long ago", mode: "Recreate", group: healthy, want: "update/evict",
			change: func(s *facts.PodState) {
				within(s)
				s.Pod.Status.StartTime = &metav1.Time{Time: now.Add(-12 * time.Hour)}
			}},
		{name: "requests that the node granted", mode: "Recreate", group: healthy, want: "eligibility/within-recommended-range",
			change: func(s *facts.PodState) {
				s.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Resources: &corev1.ResourceRequirements{Requests: list(t, "cpu=10")}}}
			}},
		{name: "the phase", mode: "Recreate", group: healthy, want: "update/evict-pending",
			change: func(s *facts.PodState) { s.Pod.Status.Phase = corev1.PodPending }},
		{name: "admission", mode: "Recreate", group: healthy, want: "eviction/admission-down", change: func(s *facts.PodState) { s.NoAdmission = "no lease" }},
		{name: "the workload", mode: "Recreate", group: facts.Group{Live: 4, Running: 4}, want: "eligibility/replicas-unknown"},
		{name: "what was disrupted", mode: "Recreate", group: facts.Group{Configured: 4, Live: 4, Running: 4, Disrupted: 2}, want: "update/budget-spent"},
		{name: "a resize", mode: "InPlaceOrRecreate", group: healthy, want: "update/infeasible-resize", change: func(s *facts.PodState) { s.Resize.Status = "Infeasible" }},
		{name: "its age", mode: "InPlaceOrRecreate", group: healthy, want: "update/deferred-too-long",
			change: func(s *facts.PodState) { s.Resize = facts.Resize{Status: "Deferred", Age: 5*time.Minute + 1} }},
		{name: "the API server's refusal", mode: "InPlaceOrRecreate", group: healthy, want: "update/resize-refused", change: func(s *facts.PodState) { s.Attempt.Refused = facts.RefusedForbidden }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &facts.PodState{
				Pod: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container(t, "a", "cpu=4", ""), container(t, "b", "cpu=1", "")}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
				VPA: vpa(tt.mode, recommendation(t, "a", "cpu=10", "cpu=6", "cpu=14")), Now: now,
			}
			if tt.change != nil {
				tt.change(s)
			}
			var failed []*engine.RuleError
			s.Change, failed = facts.ResourcesForPod(plan, facts.PodInput{Pod: s.Pod, VPA: s.VPA, Bounds: true}, nil)
			require.Empty(t, failed)
			_, failed = s.Rank(plan, nil)
			require.Empty(t, failed)
			verdict := s.Decide(plan, tt.group, nil)
			require.Nil(t, verdict.Err)
			require.Equal(t, tt.want, verdict.Rule)
		})
	}
}

func TestAPodsPriorityIsReadFromTheFacts(t *testing.T) {
	s := &facts.PodState{
		Pod: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container(t, "a", "cpu=4", "")}}},
		VPA: vpa("Recreate", recommendation(t, "a", "cpu=10", "cpu=6", "cpu=14")),
	}
	plan := shippedPlan(t)
	s.Change, _ = facts.ResourcesForPod(plan, facts.PodInput{Pod: s.Pod, VPA: s.VPA, Bounds: true}, nil)
	trace := &engine.Trace{}
	got, failed := s.Rank(plan, trace)
	require.Empty(t, failed)
	require.Equal(t, facts.Priority{OutsideRecommendedRange: true, ScaleUp: true, ResourceDiff: 1.5, MayEvict: true, First: 1, Then: 1.5}, got)
	_, traced := trace.Last("", "priority.resourceDiff")
	require.True(t, traced)
}

func TestAlterationsAreWhatThePodDoesNotHave(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{container(t, "app", "cpu=100m memory=1Gi", "cpu=1"), container(t, "proxy", "", "")},
		Resources:  &corev1.ResourceRequirements{Requests: list(t, "cpu=2"), Limits: list(t, "memory=4Gi")},
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", Resources: &corev1.ResourceRequirements{Requests: list(t, "cpu=20m")}}}
	writes := func(text string) facts.Quantities { return facts.QuantitiesOf(list(t, text)) }
	change := facts.PodChange{
		Containers: []facts.ContainerChange{
			{Index: 0, Name: "app", ResourceChange: facts.ResourceChange{Requests: writes("cpu=0.1 memory=2Gi"), Limits: writes("cpu=1000m memory=2Gi")}},
			{Index: 1, Name: "proxy", ResourceChange: facts.ResourceChange{Requests: writes("cpu=50m")}},
		},
		Pod: &facts.ResourceChange{Requests: writes("cpu=1"), Limits: writes("memory=4096Mi")},
	}
	var got []string
	for _, a := range facts.Alterations(pod, change) {
		got = append(got, fmt.Sprintf("%q %s %q %q", a.Container, a.Field, a.From, a.To))
	}
	require.Equal(t, []string{
		`"app" requests.memory "1Gi" "2Gi"`,
		`"app" limits.memory "" "2Gi"`,
		`"proxy" requests.cpu "20m" "50m"`,
		`"" requests.cpu "2" "1"`,
	}, got)
	require.Empty(t, facts.Alterations(pod, facts.PodChange{}))
}
