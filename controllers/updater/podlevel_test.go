package updater

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// podLevelWorld has a workload of two pods with pod-level resources, and a LimitRange of type
// Container.
func podLevelWorld(t *testing.T, mode vpav1.UpdateMode, stanza *corev1.ResourceRequirements, limits corev1.ResourceList, gates ...string) *world {
	t.Helper()
	w := newWorld(t, nil, gates...)
	w.workload("web", 2, mode)
	var pods corev1.PodList
	require.NoError(t, w.List(t.Context(), &pods))
	for i := range pods.Items {
		pods.Items[i].Spec.Resources = stanza
		pods.Items[i].Spec.Containers[0].Resources.Limits = limits
		require.NoError(t, w.Update(t.Context(), &pods.Items[i]))
	}
	require.NoError(t, w.Create(t.Context(), &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "defaults"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: amounts("600m", "256Mi"), DefaultRequest: amounts("10m", "16Mi")}}}}))
	return w
}

// TestPodsThatAdmissionWouldRefuseAreNotEvicted: their replacements would be refused, one after the
// other up to the tolerance.
func TestPodsThatAdmissionWouldRefuseAreNotEvicted(t *testing.T) {
	shared := &corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("2", "2Gi")}
	for name, tt := range map[string]struct {
		mode   vpav1.UpdateMode
		stanza *corev1.ResourceRequirements
		limits corev1.ResourceList
		gates  []string
		asked  []string
		rule   string
	}{
		"refused":                      {mode: vpav1.UpdateModeRecreate, stanza: shared, gates: []string{"PodLevelResources"}, rule: "eviction/admission-refuses"},
		"an empty stanza is none":      {mode: vpav1.UpdateModeRecreate, stanza: &corev1.ResourceRequirements{}, gates: []string{"PodLevelResources"}, asked: []string{"evict web-01"}, rule: "update/evict"},
		"no stanza":                    {mode: vpav1.UpdateModeRecreate, gates: []string{"PodLevelResources"}, asked: []string{"evict web-01"}, rule: "update/evict"},
		"the gate is off":              {mode: vpav1.UpdateModeRecreate, stanza: shared, asked: []string{"evict web-01"}, rule: "update/evict"},
		"a resize would be spoiled":    {mode: vpav1.UpdateModeInPlaceOrRecreate, stanza: shared, gates: []string{"PodLevelResources"}, rule: "resize/limit-range-defaults"},
		"a resize would not":           {mode: vpav1.UpdateModeInPlaceOrRecreate, stanza: shared, limits: amounts("200m", "200Mi"), gates: []string{"PodLevelResources"}, asked: []string{"resize web-01"}, rule: "update/resize"},
		"resized with the gate off":    {mode: vpav1.UpdateModeInPlaceOrRecreate, stanza: shared, asked: []string{"resize web-01"}, rule: "update/resize"},
		"resized with an empty stanza": {mode: vpav1.UpdateModeInPlaceOrRecreate, stanza: &corev1.ResourceRequirements{Limits: corev1.ResourceList{}}, gates: []string{"PodLevelResources"}, asked: []string{"resize web-01"}, rule: "update/resize"},
	} {
		t.Run(name, func(t *testing.T) {
			w := podLevelWorld(t, tt.mode, tt.stanza, tt.limits, tt.gates...)
			require.Equal(t, tt.asked, w.cycle())
			action := "Wait"
			if tt.asked != nil {
				action, _, _ = strings.Cut(tt.asked[0], " ")
				action = map[string]string{"evict": "Evict", "resize": "InPlace"}[action]
			}
			require.NotZero(t, testutil.ToFloat64(decidedPods.WithLabelValues(action, tt.rule)))
		})
	}
}

// TestResizeOfAPodWithPodLevelResourcesAddsNoContainerLimits: neither the default nor the maximum
// of a LimitRange of type Container applies to the pod level (AEP-7571).
func TestResizeOfAPodWithPodLevelResourcesAddsNoContainerLimits(t *testing.T) {
	w := podLevelWorld(t, vpav1.UpdateModeInPlaceOrRecreate, &corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("2", "2Gi")}, amounts("200m", "256Mi"), "PodLevelResources")
	require.Equal(t, []string{"resize web-01"}, w.cycle())
	var pods corev1.PodList
	require.NoError(t, w.List(t.Context(), &pods))
	got := pods.Items[0].Spec.Containers[0].Resources
	require.Equal(t, []string{"500m", "512Mi", "1", "1Gi"}, []string{got.Requests.Cpu().String(), got.Requests.Memory().String(), got.Limits.Cpu().String(), got.Limits.Memory().String()})
}
