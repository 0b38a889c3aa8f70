package podpatch

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func quantities(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func wire(t *testing.T, ops []jsonpatch.Operation) string {
	t.Helper()
	body, err := json.Marshal(ops)
	require.NoError(t, err)
	return string(body)
}

func change(index int, requests, limits corev1.ResourceList, notes ...string) facts.ContainerChange {
	return facts.ContainerChange{Index: index, ResourceChange: facts.ResourceChange{Requests: facts.QuantitiesOf(requests), Limits: facts.QuantitiesOf(limits), Notes: notes}}
}

// The expected patches are upstream's (UPSTREAM.md §4.3, §4.11), in sorted order.
func TestAdmissionPatches(t *testing.T) {
	full := corev1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "100Mi"), Limits: quantities("cpu", "300m", "memory", "100Mi")}
	tests := []struct {
		name        string
		annotations map[string]string
		containers  []corev1.Container
		changes     []facts.ContainerChange
		want        string
	}{
		{
			name: "requests and limits", annotations: map[string]string{"a": "b"},
			containers: []corev1.Container{{Name: "a", Resources: full}},
			changes:    []facts.ContainerChange{change(0, quantities("memory", "200Mi", "cpu", "250m"), quantities("cpu", "750m", "memory", "200Mi"))},
			want: `[{"op":"add","path":"/spec/containers/0/resources/requests/cpu","value":"250m"},` +
				`{"op":"add","path":"/spec/containers/0/resources/requests/memory","value":"200Mi"},` +
				`{"op":"add","path":"/spec/containers/0/resources/limits/cpu","value":"750m"},` +
				`{"op":"add","path":"/spec/containers/0/resources/limits/memory","value":"200Mi"},` +
				`{"op":"add","path":"/metadata/annotations/vpaUpdates","value":"Pod resources updated by v: container 0: cpu request, memory request, cpu limit, memory limit"},` +
				`{"op":"add","path":"/metadata/annotations/vpaObservedContainers","value":"a"}]`,
		},
		{
			name:       "a pod without annotations and a container without resources; the first has no recommendation",
			containers: []corev1.Container{{Name: "a"}, {Name: "b"}},
			changes:    []facts.ContainerChange{{Index: 0}, change(1, quantities("cpu", "250m"), nil, "cpu capped to maxAllowed")},
			want: `[{"op":"add","path":"/metadata/annotations","value":{}},` +
				`{"op":"add","path":"/spec/containers/1/resources","value":{}},` +
				`{"op":"add","path":"/spec/containers/1/resources/requests","value":{}},` +
				`{"op":"add","path":"/spec/containers/1/resources/requests/cpu","value":"250m"},` +
				`{"op":"add","path":"/metadata/annotations/vpaUpdates","value":"Pod resources updated by v: container 1: cpu capped to maxAllowed, cpu request"},` +
				`{"op":"add","path":"/metadata/annotations/vpaObservedContainers","value":"a, b"}]`,
		},
		{
			name: "limits but no requests", annotations: map[string]string{},
			containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Limits: quantities("memory", "1Gi")}}},
			changes:    []facts.ContainerChange{change(0, quantities("memory", "200Mi"), quantities("memory", "200Mi"))},
			want: `[{"op":"add","path":"/spec/containers/0/resources/requests","value":{}},` +
				`{"op":"add","path":"/spec/containers/0/resources/requests/memory","value":"200Mi"},` +
				`{"op":"add","path":"/spec/containers/0/resources/limits/memory","value":"200Mi"},` +
				`{"op":"add","path":"/metadata/annotations/vpaUpdates","value":"Pod resources updated by v: container 0: memory request, memory limit"},` +
				`{"op":"add","path":"/metadata/annotations/vpaObservedContainers","value":"a"}]`,
		},
		{
			name: "nothing to set", annotations: map[string]string{},
			containers: []corev1.Container{{Name: "a"}},
			changes:    []facts.ContainerChange{change(0, nil, nil, "unheard")},
			want:       `[{"op":"add","path":"/metadata/annotations/vpaObservedContainers","value":"a"}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: tt.containers}}
			pod.Annotations = tt.annotations
			require.JSONEq(t, tt.want, wire(t, Admission(pod, "v", facts.PodChange{Containers: tt.changes})))
			require.Equal(t, tt.want, wire(t, Admission(pod, "v", facts.PodChange{Containers: tt.changes})), "in this very order")
		})
	}
}

func TestPathSegmentsAreEscaped(t *testing.T) {
	require.Equal(t, "example.com~1a~0b", Escape("example.com/a~b"))
	require.Equal(t, "/metadata/annotations/x~1y", Annotate("x/y", "").Path)
}

func TestResourcesAtPodLevelAreWrittenFirst(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Resources:  &corev1.ResourceRequirements{Limits: quantities("cpu", "1")},
		Containers: []corev1.Container{{Name: "a"}},
	}}
	level := facts.ResourceChange{Requests: facts.QuantitiesOf(quantities("cpu", "2")), Limits: facts.QuantitiesOf(quantities("cpu", "4")), Notes: []string{"cpu capped to pod limit"}}
	got := facts.PodChange{Pod: &level, Containers: []facts.ContainerChange{change(0, quantities("cpu", "1"), nil)}}
	require.Equal(t, `[{"op":"add","path":"/spec/resources/requests","value":{}},`+
		`{"op":"add","path":"/spec/resources/requests/cpu","value":"2"},`+
		`{"op":"add","path":"/spec/resources/limits/cpu","value":"4"},`+
		`{"op":"add","path":"/spec/containers/0/resources","value":{}},`+
		`{"op":"add","path":"/spec/containers/0/resources/requests","value":{}},`+
		`{"op":"add","path":"/spec/containers/0/resources/requests/cpu","value":"1"}]`, wire(t, Resources(pod, got)))
	require.Equal(t, "Pod resources updated by v: pod: cpu capped to pod limit, cpu request, cpu limit; container 0: cpu request", Updates("v", got))
	require.Empty(t, Resources(pod, facts.PodChange{Pod: &facts.ResourceChange{Notes: []string{"unheard"}}}))
}

// TestAnnotationsOfAResizedPodDescribeTheResize, and not the pod as it was created (AEP-7571).
func TestAnnotationsOfAResizedPodDescribeTheResize(t *testing.T) {
	level := facts.ResourceChange{Requests: facts.QuantitiesOf(quantities("memory", "2Gi")), Notes: []string{"memory: limit NOT set since originalLimit is nil or 0", "memory capped to fit Max in pod LimitRange"}}
	over := change(0, quantities("cpu", "1"), nil)
	over.Name, over.Boost.Over = "a", true
	both := facts.PodChange{Pod: &level, Containers: []facts.ContainerChange{over}}
	const annotations = `{"op":"add","path":"/metadata/annotations/vpaUpdates","value":"Pod resources updated by v: pod: memory: limit NOT set since originalLimit is nil or 0, memory capped to fit Max in pod LimitRange, memory request; container 0: cpu request"},` +
		`{"op":"add","path":"/metadata/annotations/vpaInPlaceUpdated","value":"true"}`
	pod := &corev1.Pod{}
	require.Equal(t, `[{"op":"test","path":"/metadata/annotations","value":null},{"op":"add","path":"/metadata/annotations","value":{}},`+annotations+`]`, wire(t, Resized(pod, "v", both)))
	pod.Annotations = map[string]string{"vpaUpdates": "Pod resources updated by old: pod: cpu request", "vpaObservedContainers": "a", "vpaCpuStartupBoost/a": "{}"}
	require.Equal(t, `[`+annotations+`,{"op":"remove","path":"/metadata/annotations/vpaCpuStartupBoost~1a"}]`, wire(t, Resized(pod, "v", both)))
}

// TestAResizedPodKeepsItsRatio in an annotation, once, if its new limits are rounded.
func TestAResizedPodKeepsItsRatio(t *testing.T) {
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "2m"), Limits: quantities("cpu", "3m")}},
		{Name: "b", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "1m"), Limits: quantities("cpu", "3m")}}}}}
	pod.Annotations = map[string]string{"vpaUpdates": "x"}
	vpa := &vpav1.VerticalPodAutoscaler{}
	vpa.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
		{ContainerName: "a", Target: quantities("cpu", "3m")}, {ContainerName: "b", Target: quantities("cpu", "3m")}}}
	change, failed := facts.ResourcesForPod(book.Default(), facts.PodInput{Pod: pod, VPA: vpa}, nil)
	require.Empty(t, failed)
	const ratio = `{"requests":{"cpu":"2m"},"limits":{"cpu":"3m"}}`
	ops := Resized(pod, "v", change)
	require.Equal(t, []jsonpatch.Operation{Annotate("vpaLimitRatio/a", ratio)}, ops[2:])
	pod.Annotations["vpaLimitRatio/a"] = ratio
	require.Equal(t, ops[:2], Resized(pod, "v", change))
}
