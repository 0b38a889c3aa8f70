package podupdate

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
