package podpatch

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celvpa/celvpa/controllers/facts"
)

// TestNoPatchMakesAnnotationsTooLarge: API servers refused pods whose own annotations came near 256
// KiB because of ours.
func TestNoPatchMakesAnnotationsTooLarge(t *testing.T) {
	const limit = validation.TotalAnnotationSizeLimitB
	change := facts.PodChange{Containers: []facts.ContainerChange{{Name: "app", ResourceChange: facts.ResourceChange{
		Requests: facts.QuantitiesOf(corev1.ResourceList{"cpu": resource.MustParse("1")})}}}}
	boosted := facts.PodChange{Containers: []facts.ContainerChange{change.Containers[0]}}
	boosted.Containers[0].Boost.Raised = true
	updates := len(AnnotationUpdates) + len(Updates("web", change))
	observed := len(facts.AnnotationObservedContainers) + len("app")
	boost := len(facts.AnnotationStartupBoost+"app") + len(facts.BeforeBoost(&corev1.Container{}))
	for name, tt := range map[string]struct {
		size   int // of the pod's own annotations, keys included
		change facts.PodChange
		stale  string // value of vpaUpdates that it came with
		wants  []string
	}{
		"all fit": {limit - updates - observed, change, "", []string{"own", facts.AnnotationObservedContainers, AnnotationUpdates}},
		"a byte too few for what was set and why":     {limit - updates - observed + 1, change, "", []string{"own", AnnotationUpdates}},
		"room for the containers only":                {limit - observed, change, "", []string{"own", facts.AnnotationObservedContainers}},
		"room for none":                               {limit, change, "", []string{"own"}},
		"a text that is no longer true goes":          {limit - observed - len(AnnotationUpdates) - 1, change, "x", []string{"own", facts.AnnotationObservedContainers}},
		"a text that is replaced makes room":          {limit - observed - updates, change, strings.Repeat("x", updates-len(AnnotationUpdates)), []string{"own", facts.AnnotationObservedContainers, AnnotationUpdates}},
		"a boost that can be noted":                   {limit - boost, boosted, "", []string{"own", facts.AnnotationStartupBoost + "app"}},
		"a boost that cannot be noted is not applied": {limit - boost + 1, boosted, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
			pod.Annotations["own"] = strings.Repeat("x", tt.size-len("own"))
			if tt.stale != "" {
				pod.Annotations[AnnotationUpdates] = tt.stale
			}
			ops := Admission(pod, "web", tt.change)
			if tt.wants == nil {
				require.Empty(t, ops)
				return
			}
			after := patched(t, pod, ops)
			require.Empty(t, validation.ValidateAnnotations(after.Annotations, field.NewPath("metadata")))
			var keys []string
			for key := range after.Annotations {
				keys = append(keys, key)
			}
			require.ElementsMatch(t, tt.wants, keys)
			require.True(t, after.Spec.Containers[0].Resources.Requests.Cpu().Equal(resource.MustParse("1")), "the resources are set all the same")
			after = patched(t, pod, Resized(pod, "web", tt.change))
			require.Empty(t, validation.ValidateAnnotations(after.Annotations, field.NewPath("metadata")))
		})
	}
}

func patched(t *testing.T, pod *corev1.Pod, ops any) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(pod)
	require.NoError(t, err)
	text, err := json.Marshal(ops)
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(text)
	require.NoError(t, err)
	after, err := patch.Apply(before)
	require.NoError(t, err)
	out := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(after, out))
	return out
}
