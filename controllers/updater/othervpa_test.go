package updater

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// beside adds a VPA of the target of VPA web, which recommends the same but permits 100m only.
func (w *world) beside(name string, age time.Duration, change func(*vpav1.VerticalPodAutoscaler)) {
	w.t.Helper()
	var first vpav1.VerticalPodAutoscaler
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, &first))
	v := first.DeepCopy()
	v.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.clock.Now().Add(-age))}
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "*", MaxAllowed: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}}
	change(v)
	status := v.Status
	require.NoError(w.t, w.Create(w.t.Context(), v))
	v.Status = status
	require.NoError(w.t, w.WithWatch.Status().Update(w.t.Context(), v))
}

func inMode(mode vpav1.UpdateMode) func(*vpav1.VerticalPodAutoscaler) {
	return func(v *vpav1.VerticalPodAutoscaler) { v.Spec.UpdatePolicy.UpdateMode = &mode }
}

func boosting(v *vpav1.VerticalPodAutoscaler) {
	inMode(vpav1.UpdateModeOff)(v)
	v.Spec.StartupBoost = &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: vpav1.ScaleFactor, Factor: ptr.To(int32(2))}}
}

// Regression: of two VPAs with one target the older, in mode Initial, changed new pods and the
// younger one running pods. So the updater evicted pods by one VPA, admission changed their
// replacements by the other, and that had no end.
func TestPodsThatAdmissionChangesByAnotherVPAAreNotEvicted(t *testing.T) {
	const waits = "Wait eviction/admission-by-another"
	tests := []struct {
		name   string
		mode   vpav1.UpdateMode // of VPA web
		gate   bool
		age    time.Duration // of the other one
		other  func(*vpav1.VerticalPodAutoscaler)
		asked  []string
		action string // of VPA web
	}{
		{name: "an older one in mode Initial", mode: vpav1.UpdateModeRecreate, age: time.Hour, other: inMode(vpav1.UpdateModeInitial), action: waits},
		{name: "a younger one in mode Initial", mode: vpav1.UpdateModeRecreate, age: -time.Hour, other: inMode(vpav1.UpdateModeInitial), asked: []string{"evict web-01"}, action: "Evict update/evict"},
		{name: "an older one in mode Off", mode: vpav1.UpdateModeRecreate, age: time.Hour, other: inMode(vpav1.UpdateModeOff), asked: []string{"evict web-01"}, action: "Evict update/evict"},
		{name: "an older one in mode Off with a boost", mode: vpav1.UpdateModeRecreate, gate: true, age: time.Hour, other: boosting, action: waits},
		{name: "its gate is off", mode: vpav1.UpdateModeRecreate, age: time.Hour, other: boosting, asked: []string{"evict web-01"}, action: "Evict update/evict"},
		{name: "pods that are resized", mode: vpav1.UpdateModeInPlaceOrRecreate, age: time.Hour, other: inMode(vpav1.UpdateModeInitial), asked: []string{"resize web-01"}, action: "InPlace update/resize"},
		{name: "an older one of another target", mode: vpav1.UpdateModeRecreate, age: time.Hour, asked: []string{"evict web-01"}, action: "Evict update/evict",
			other: func(v *vpav1.VerticalPodAutoscaler) {
				inMode(vpav1.UpdateModeInitial)(v)
				v.Spec.TargetRef.Name = "shop"
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, withRules(t, policy.Options{Gates: map[string]bool{"CPUStartupBoost": tt.gate}}))
			w.workload("web", 2, tt.mode)
			var web vpav1.VerticalPodAutoscaler
			require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, &web))
			web.CreationTimestamp = metav1.NewTime(w.clock.Now())
			require.NoError(t, w.WithWatch.Update(t.Context(), &web))
			w.beside("other", tt.age, tt.other)
			said := w.explained("web").Pods[0]
			require.Equal(t, tt.action, said.Action+" "+said.Rule)
			if tt.action == waits {
				require.Equal(t, "Admission would change the replacement pod by another VerticalPodAutoscaler, other", said.Reason)
			}
			require.Equal(t, tt.asked, w.cycle())
		})
	}
}
