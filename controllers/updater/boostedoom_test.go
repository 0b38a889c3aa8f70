package updater

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Regression: a boost ends once its pod is ready, and a pod that ran out of memory before that was
// left alone for good, although the VPA recommended four times its memory.
func TestBoostedPodThatRunsOutOfMemoryIsEvicted(t *testing.T) {
	for _, mode := range []vpav1.UpdateMode{vpav1.UpdateModeRecreate, vpav1.UpdateModeInPlaceOrRecreate} {
		for _, ready := range []bool{false, true} {
			w := newWorld(t, withRules(t, policy.Options{Gates: map[string]bool{"CPUStartupBoost": true}}))
			w.workload("web", 2, mode)
			w.edit("web-01", func(p *corev1.Pod) {
				p.Annotations = map[string]string{facts.AnnotationStartupBoost + "app": `{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{}}`}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "OOMKilled", StartedAt: metav1.NewTime(w.clock.Now().Add(-2 * time.Minute)), FinishedAt: metav1.NewTime(w.clock.Now().Add(-time.Minute))}}}}
				if ready {
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
				}
			})
			asked := w.cycle()
			if ready {
				require.NotContains(t, asked, "evict web-01", mode)
			} else {
				require.Contains(t, asked, "evict web-01", mode)
			}
		}
	}
}
