package facts

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Charts render an empty stanza; API servers treat it as absent.
func TestAnEmptyStanzaIsNone(t *testing.T) {
	none := corev1.ResourceList{}
	for name, tt := range map[string]struct {
		stanza *corev1.ResourceRequirements
		some   bool
	}{
		"none":                      {},
		"an empty one":              {stanza: &corev1.ResourceRequirements{}},
		"empty limits":              {stanza: &corev1.ResourceRequirements{Limits: none}},
		"empty requests":            {stanza: &corev1.ResourceRequirements{Requests: none}},
		"empty requests and limits": {stanza: &corev1.ResourceRequirements{Requests: none, Limits: none}},
		"a request":                 {stanza: &corev1.ResourceRequirements{Requests: amounts("cpu", "1")}, some: true},
		"a limit":                   {stanza: &corev1.ResourceRequirements{Limits: amounts("memory", "1Gi"), Requests: none}, some: true},
		"only huge pages":           {stanza: &corev1.ResourceRequirements{Limits: amounts("hugepages-2Mi", "2Mi")}, some: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{Resources: tt.stanza, Containers: []corev1.Container{{Name: "app"}}},
				// Nodes report pod-level resources only where the spec has some; ignore any others.
				Status: corev1.PodStatus{Resources: &corev1.ResourceRequirements{Requests: amounts("cpu", "2")}},
			}
			_, judged := podObject(pod)["spec"].(map[string]any)["resources"]
			require.Equal(t, tt.some, judged)
			_, remembered := SpecRequests(pod)[""]
			require.Equal(t, tt.some, remembered)
			require.Equal(t, tt.some, PodLevel(pod) != nil)
			if !tt.some {
				_, _, ok := podResourcesOf(pod)
				require.False(t, ok)
				require.False(t, awaited(pod))
				require.NotPanics(t, func() { wantedNow(pod, PodChange{}) })
				require.Nil(t, bindPod(PolicyRules{}, PodInput{Pod: pod, VPA: &vpav1.VerticalPodAutoscaler{}}).pod)
			}
		})
	}
}
