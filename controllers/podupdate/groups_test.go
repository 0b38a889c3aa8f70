package podupdate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

func TestPodsWhoseResizeIsSentOrInProgressCountAsDisrupted(t *testing.T) {
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		change(p)
		return p
	}
	says := func(kind corev1.PodConditionType, reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason}}
		}
	}
	one := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
	}
	sent := func(p *corev1.Pod) {
		granted := one("1")
		p.Spec.Containers = []corev1.Container{{Name: "a", Resources: one("2")}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Resources: &granted}}
	}
	itself := pod("itself", says(corev1.PodResizeInProgress, ""))
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"none":                             {func(*corev1.Pod) {}, 0},
		"in progress":                      {says(corev1.PodResizeInProgress, ""), 1},
		"sent":                             {sent, 1},
		"deferred":                         {says(corev1.PodResizePending, corev1.PodReasonDeferred), 0},
		"infeasible":                       {says(corev1.PodResizePending, corev1.PodReasonInfeasible), 0},
		"failed":                           {says(corev1.PodResizeInProgress, corev1.PodReasonError), 0},
		"another actor is at it":           {func(p *corev1.Pod) { p.Name = "busy" }, 1},
		"that, and it has not started":     {func(p *corev1.Pod) { p.Name, p.Status.Phase = "busy", corev1.PodPending }, 0},
		"in progress, and it terminates":   {func(p *corev1.Pod) { sent(p); p.DeletionTimestamp = &metav1.Time{} }, 0},
		"in progress, and it has finished": {func(p *corev1.Pod) { sent(p); p.Status.Phase = corev1.PodSucceeded }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			busy := func(p *corev1.Pod) bool { return p.Name == "busy" }
			require.Equal(t, tt.want, Resizing([]*corev1.Pod{itself, pod("other", tt.change)}, itself, busy))
		})
	}
}

func TestOnlyPodsThatAreScheduledAndAliveAreLookedAt(t *testing.T) {
	for name, tt := range map[string]struct {
		node        string
		phase       corev1.PodPhase
		terminating bool
		want        string
	}{
		"it runs":                       {node: "n", phase: corev1.PodRunning},
		"it has not started":            {node: "n", phase: corev1.PodPending},
		"nothing is known of it":        {node: "n", phase: corev1.PodUnknown},
		"it has no status":              {node: "n"},
		"it is not scheduled":           {phase: corev1.PodPending, want: "The pod has no node"},
		"it is done":                    {node: "n", phase: corev1.PodSucceeded, want: "The pod has finished"},
		"it failed":                     {node: "n", phase: corev1.PodFailed, want: "The pod has finished"},
		"it is about to go":             {node: "n", phase: corev1.PodRunning, terminating: true, want: "The pod is terminating"},
		"it never ran, and was deleted": {phase: corev1.PodPending, terminating: true, want: "The pod is terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: tt.node}, Status: corev1.PodStatus{Phase: tt.phase}}
			if tt.terminating {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			require.Equal(t, tt.want, IgnoredReason(pod))
		})
	}
}

func TestPodsGoInTheOrderOfTheRules(t *testing.T) {
	pod := func(name string, first int64, then float64) *Candidate {
		p := &corev1.Pod{}
		p.Name = name
		return &Candidate{Pod: &Pod{PodState: facts.PodState{Pod: p}, Priority: facts.Priority{First: first, Then: then}}}
	}
	list := []*Candidate{pod("d", 0, 9), pod("c", 1, 1), pod("b", 1, 1), pod("a", 1, 2), pod("e", 0, 0.5), pod("f", 0, math.NaN())}
	Sort(list)
	var names []string
	for _, p := range list {
		names = append(names, p.Pod.PodState.Pod.Name)
	}
	require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, names)
}
