package recommender

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func amountsOf(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// wholePod is a pod with requests of its own, none when they are nil.
func (w *world) wholePod(name string, requests corev1.ResourceList, containers ...string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "x"}}}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c})
	}
	if requests != nil {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: requests}
	}
	w.SetPod(pod, false, start)
	w.idle(model.PodID{Namespace: "ns", Name: name}, containers...)
}

// TestPodsWithPodLevelRequestsGetAPodLevelRecommendation: AEP-7571.
func TestPodsWithPodLevelRequestsGetAPodLevelRecommendation(t *testing.T) {
	podLevel := policy.Options{Gates: map[string]bool{"PodLevelResources": true}}
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	bounded := func(least, most corev1.ResourceList) func(*vpav1.VerticalPodAutoscaler) {
		return func(v *vpav1.VerticalPodAutoscaler) {
			v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{PodPolicies: &vpav1.PodPolicies{MinAllowed: least, MaxAllowed: most}}
		}
	}
	for _, tt := range []struct {
		name     string
		o        policy.Options
		requests corev1.ResourceList
		edit     func(*vpav1.VerticalPodAutoscaler)
		pod      corev1.ResourceList // target
		each     corev1.ResourceList // target of each of the two containers
		uncapped corev1.ResourceList // of the pod
	}{
		{"one request is enough", podLevel, memory, nil, amountsOf("24m", "250Mi"), amountsOf("12m", "125Mi"), amountsOf("24m", "250Mi")},
		{"no request of its own", podLevel, nil, nil, nil, amountsOf("12m", "125Mi"), nil},
		{"an empty stanza", podLevel, corev1.ResourceList{}, nil, nil, amountsOf("12m", "125Mi"), nil},
		{"the gate is off", policy.Options{}, memory, nil, nil, amountsOf("12m", "125Mi"), nil},
		{"a minimum raises the containers", podLevel, memory, bounded(amountsOf("240m", "2500Mi"), nil), amountsOf("240m", "2500Mi"), amountsOf("120m", "1250Mi"), amountsOf("24m", "250Mi")},
		{"a maximum lowers them", podLevel, memory, bounded(nil, amountsOf("12m", "100Mi")), amountsOf("12m", "100Mi"), amountsOf("6m", "50Mi"), amountsOf("24m", "250Mi")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.o)
			if tt.edit != nil {
				w.edit(tt.edit)
			}
			w.wholePod("plain", nil, "a", "b")
			w.wholePod("p", tt.requests, "a", "b")
			require.True(t, w.cycle())
			same := func(want, got corev1.ResourceList) {
				t.Helper()
				require.Len(t, got, len(want))
				for name, q := range want {
					have := got[name]
					require.Zero(t, q.Cmp(have), "%s: want %s, got %s", name, q.String(), have.String())
				}
			}
			r := w.v.Status.Recommendation
			for _, c := range r.ContainerRecommendations {
				same(tt.each, c.Target)
			}
			if tt.pod == nil {
				require.Nil(t, r.PodRecommendation)
				return
			}
			same(tt.pod, r.PodRecommendation.Target)
			same(tt.uncapped, r.PodRecommendation.UncappedTarget)

			w.cluster.KeepPods(map[model.PodID]bool{{Namespace: "ns", Name: "plain"}: true})
			require.True(t, w.cycle())
			require.Nil(t, w.v.Status.Recommendation.PodRecommendation, "the last pod with requests of its own is gone")
		})
	}
}

// TestAWorkloadScaledToZeroKeepsItsPodLevelRecommendation, whose bounds its containers need when it
// is scaled up again.
func TestAWorkloadScaledToZeroKeepsItsPodLevelRecommendation(t *testing.T) {
	w := newWorld(t, policy.Options{Gates: map[string]bool{"PodLevelResources": true}})
	w.edit(func(v *vpav1.VerticalPodAutoscaler) {
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{PodPolicies: &vpav1.PodPolicies{MinAllowed: amountsOf("240m", "2500Mi")}}
	})
	w.wholePod("p", amountsOf("1", "1Gi"), "a", "b")
	require.True(t, w.cycle())
	before := w.v.Status.Recommendation.DeepCopy()
	require.NotNil(t, before.PodRecommendation)

	w.cluster.KeepPods(nil)
	require.True(t, w.cycle())
	require.Equal(t, before, w.v.Status.Recommendation)

	w.wholePod("plain", nil, "a", "b")
	require.True(t, w.cycle())
	require.Nil(t, w.v.Status.Recommendation.PodRecommendation, "new pods have no requests of their own")
}

// TestAnOOMKillOfAContainerThatSharesThePodsMemoryStartsFromItsShare: AEP-7571.
func TestAnOOMKillOfAContainerThatSharesThePodsMemoryStartsFromItsShare(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      policy.Options
		sample int64
	}{
		{"the gate is on", policy.Options{Gates: map[string]bool{"PodLevelResources": true}}, 1200 << 20},
		{"the gate is off", policy.Options{}, 100<<20 + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.o)
			w.see()
			id := w.idlePod("p", "a")
			taken, sample := w.AddOOM(model.OOM{Pod: id, Container: "a", Share: 1000 << 20, At: start}, start)
			require.Equal(t, model.Accepted, taken)
			require.Equal(t, tt.sample, sample)
		})
	}
}
