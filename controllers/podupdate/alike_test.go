package podupdate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
)

// Pods are assessed one after the other as they would be alone, whatever differs between them.
func TestPodsThatDifferAreAssessedApart(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	killed := &corev1.ContainerStateTerminated{Reason: "OOMKilled", StartedAt: metav1.NewTime(now.Add(-2 * time.Minute)), FinishedAt: metav1.NewTime(now.Add(-time.Minute))}
	changes := map[string]func(*corev1.Pod){
		"nothing":              func(*corev1.Pod) {},
		"requests in the spec": func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("300m", "128Mi") },
		"limits in the spec":   func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = amounts("900m", "256Mi") },
		"granted resources": func(p *corev1.Pod) {
			p.Status.ContainerStatuses[1].Resources = &corev1.ResourceRequirements{Requests: amounts("400m", "1Gi")}
		},
		"no granted resources": func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Resources = nil },
		"another container":    func(p *corev1.Pod) { p.Spec.Containers[1].Name = "other" },
		"fewer containers":     func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
		"an init container":    func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.Containers[:1] },
		"an OOM kill":          func(p *corev1.Pod) { p.Status.ContainerStatuses[0].LastTerminationState.Terminated = killed },
		"what admission saw":   func(p *corev1.Pod) { p.Annotations = map[string]string{"vpaObservedContainers": "sidecar"} },
		"a startup boost": func(p *corev1.Pod) {
			p.Annotations = map[string]string{"vpaCpuStartupBoost/app": `{"requests":{"cpu":"1m"},"limits":{}}`}
		},
		"resources of the pod": func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "1Gi")} },
		"those that it runs in": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}
			p.Status.Resources = &corev1.ResourceRequirements{Requests: amounts("2", "1Gi")}
		},
		"a resize under way": func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, LastTransitionTime: metav1.NewTime(now)}}
		},
		"readiness": func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		},
		"readiness while boosted": func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		},
		"its start": func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Minute)} },
		"its phase": func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"its owner": func(p *corev1.Pod) { p.OwnerReferences[0].Name = "web-2" },
		"its class": func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed },
	}
	vpas, of, limits := world(2)
	group := facts.Group{Configured: 3, Live: 3, Running: 3, Ready: 3}
	for _, gates := range []map[string]bool{nil, {"InPlace": true, "CPUStartupBoost": true, "PodLevelResources": true, "PerVPAConfig": true}} {
		book, err := policy.Load(policy.Options{Gates: gates})
		require.NoError(t, err)
		plan := policy.For(book, vpas[0]).Plan
		for name, change := range changes {
			t.Run(name, func(t *testing.T) {
				base, other := of[0][0].DeepCopy(), of[0][1].DeepCopy()
				if name == "readiness while boosted" {
					base.Annotations = map[string]string{"vpaCpuStartupBoost/app": `{"requests":{"cpu":"1m"},"limits":{}}`}
					other.Annotations = base.Annotations
				}
				change(other)
				request := func(pod *corev1.Pod) podupdate.Request {
					return podupdate.Request{Pod: pod, VPA: vpas[0], Limits: limits, Now: now, Infeasible: facts.Requests{}}
				}
				var together, decided podupdate.Alike
				for i, pod := range []*corev1.Pod{base, other, base, other} {
					alone, failed := podupdate.Assess(plan, request(pod), nil)
					require.Empty(t, failed)
					got, failed := together.Assess(plan, request(pod), nil)
					require.Empty(t, failed)
					require.Equal(t, alone, got)
					after, _ := decided.Assess(plan, request(pod), nil) // facts that earlier decisions have bound
					group.Disrupted = i / 2
					require.Equal(t, alone.Decide(plan, group, nil), after.Decide(plan, group, nil))
				}
			})
		}
	}
}
