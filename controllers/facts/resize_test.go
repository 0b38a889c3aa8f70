package facts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

func TestResizeStatusOfAPod(t *testing.T) {
	pending := func(reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}
	}
	inProgress := func(reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	}
	tests := []struct {
		name       string
		conditions []corev1.PodCondition
		want       string
	}{
		{"none", []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, ""},
		{"over", []corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionFalse}}, ""},
		{"in progress", []corev1.PodCondition{inProgress("", "")}, "InProgress"},
		{"failing", []corev1.PodCondition{inProgress("Error", "cgroup")}, "Error"},
		{"strange", []corev1.PodCondition{inProgress("", "what")}, "Unknown"},
		{"deferred", []corev1.PodCondition{pending("Deferred")}, "Deferred"},
		{"infeasible", []corev1.PodCondition{pending("Infeasible")}, "Infeasible"},
		{"pending for a reason of the future", []corev1.PodCondition{pending("Moonphase")}, "Unknown"},
		{"a pending resize says more than the one in progress", []corev1.PodCondition{inProgress("", ""), pending("Deferred")}, "Deferred"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, _ := facts.ResizeOf(&corev1.Pod{Status: corev1.PodStatus{Conditions: tt.conditions}})
			require.Equal(t, facts.ResizeStatus(tt.want), got)
		})
	}
}

// Until the node reports on an accepted resize, no other may be sent (AEP-8818).
func TestAResizeThatTheNodeHasNotSeenIsUnderWay(t *testing.T) {
	tests := []struct {
		name                 string
		spec, granted        string
		specLimits, limits   string
		generation, observed int64
		pending              string
		want                 facts.ResizeStatus
	}{
		{name: "granted", spec: "cpu=1 memory=1Gi", granted: "cpu=1 memory=1Gi"},
		{name: "asked for", spec: "cpu=2 memory=1Gi", granted: "cpu=1 memory=1Gi", want: facts.ResizeSent},
		{name: "a limit asked for", specLimits: "cpu=2", limits: "cpu=1", want: facts.ResizeSent},
		{name: "nodes grant no less than two milli-cores", spec: "cpu=1m", granted: "cpu=2m"},
		{name: "nor limits of less than ten", specLimits: "cpu=5m", limits: "cpu=10m"},
		{name: "what is not reported does not count", spec: "cpu=2", granted: "memory=1Gi"},
		{name: "a node that does not resize reports nothing", spec: "cpu=2"},
		{name: "what the node says of the present spec counts", spec: "cpu=2", granted: "cpu=1", generation: 3, observed: 3, pending: "Infeasible", want: facts.ResizeInfeasible},
		{name: "not what it said of the one before", spec: "cpu=2", granted: "cpu=1", generation: 4, observed: 3, pending: "Infeasible", want: facts.ResizeSent},
		{name: "unless the spec changed in another way", spec: "cpu=2", granted: "cpu=2", generation: 4, observed: 3, pending: "Infeasible", want: facts.ResizeInfeasible},
		{name: "nodes before 1.34 report no generation", spec: "cpu=2", granted: "cpu=1", generation: 4, pending: "Deferred", want: facts.ResizeDeferred},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container(t, "a", tt.spec, tt.specLimits)}}}
			pod.Generation = tt.generation
			if tt.granted+tt.limits != "" {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Resources: &corev1.ResourceRequirements{Requests: list(t, tt.granted), Limits: list(t, tt.limits)}}}
			}
			began := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			if tt.pending != "" {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: tt.pending, ObservedGeneration: tt.observed, LastTransitionTime: began}}
			}
			got, since, _ := facts.ResizeOf(pod)
			require.Equal(t, tt.want, got)
			if tt.want == facts.ResizeInfeasible || tt.want == facts.ResizeDeferred {
				require.Equal(t, began.Time, since)
			}
		})
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list(t, "cpu=2")}}}
	pod.Status.Resources = &corev1.ResourceRequirements{Requests: list(t, "cpu=1")}
	got, _, _ := facts.ResizeOf(pod)
	require.Equal(t, facts.ResizeSent, got, "of the pod as a whole")
}

// Kubelets report a request of 1m as 2m: such a pod has what it asks for.
func TestCPUBelowTheNodesMinimumCountsAsGranted(t *testing.T) {
	for _, tt := range []struct{ asked, limit, granted, limited, requests, limits string }{
		{asked: "cpu=1m memory=1Mi", granted: "cpu=2m memory=2Mi", requests: "cpu=1m memory=2Mi"},
		{asked: "cpu=1m", granted: "cpu=3m", requests: "cpu=3m"},
		{asked: "cpu=3m", granted: "cpu=2m", requests: "cpu=2m"},
		{asked: "memory=1Mi", granted: "cpu=2m", requests: "cpu=2m"},
		{limit: "cpu=4m", limited: "cpu=10m", limits: "cpu=4m"},
		{limit: "cpu=4m", limited: "cpu=9m", limits: "cpu=9m"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container(t, "a", tt.asked, tt.limit)}}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Resources: &corev1.ResourceRequirements{Requests: list(t, tt.granted), Limits: list(t, tt.limited)}}}
		requests, limits := facts.CurrentResources(pod, 0)
		require.Equal(t, tt.requests, show(requests))
		require.Equal(t, tt.limits, show(limits))
	}
}
