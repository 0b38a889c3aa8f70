package slim_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/slim"
)

func cut(t *testing.T, annotations map[string]string) *corev1.Pod {
	t.Helper()
	got, err := slim.Pod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
	})
	require.NoError(t, err)
	return got.(*corev1.Pod)
}

func TestPodsKeepShortAnnotationsAndThoseOfVPA(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, tt := range map[string]struct {
		key, value string
		kept       bool
	}{
		"a short one":            {"example.com/never-evict", "true", true},
		"the longest":            {"key", strings.Repeat("x", 253), true},
		"one byte more":          {"key", strings.Repeat("x", 254), false},
		"a long one of VPA":      {"vpaObservedContainers", long, true},
		"what VPA did":           {"vpaUpdates", "short", false},
		"kubectl's copy of pods": {corev1.LastAppliedConfigAnnotation, long, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{"other": "x"}
			if tt.kept {
				want[tt.key] = tt.value
			}
			require.Equal(t, want, cut(t, map[string]string{"other": "x", tt.key: tt.value}).Annotations)
		})
	}
}

func TestLongAnnotationsTakeNoMemory(t *testing.T) {
	const pods, size = 64, 256 << 10
	kept := make([]*corev1.Pod, pods)
	heap := func() int64 {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	before := heap()
	for i := range kept {
		kept[i] = cut(t, map[string]string{"example.com/state": strings.Repeat("x", size-len("example.com/state")), "team": "web"})
	}
	require.Less(t, heap()-before, int64(size))
	for _, pod := range kept {
		require.Equal(t, map[string]string{"team": "web"}, pod.Annotations)
	}
}

// Values may hold whatever separates them elsewhere.
func TestOtherAnnotationsAreNotShared(t *testing.T) {
	a, b := map[string]string{"a": "1,b=1:2"}, map[string]string{"a": "1", "b": "2"}
	require.Equal(t, a, cut(t, a).Annotations)
	require.Equal(t, b, cut(t, b).Annotations)
}

// A patch that adds an empty map of annotations to a pod that has some would delete them.
func TestAPatchOfASlimPodKeepsItsAnnotations(t *testing.T) {
	amounts := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("2Gi")}
	change := facts.PodChange{Containers: []facts.ContainerChange{{Name: "app", ResourceChange: facts.ResourceChange{Requests: facts.QuantitiesOf(amounts)}}}}
	for _, annotations := range []map[string]string{{"other": "x"}, {"other": strings.Repeat("x", 1000)}} {
		pod := cut(t, nil)
		require.Nil(t, pod.Annotations)
		pod.Annotations = annotations
		require.Equal(t, podpatch.Admission(pod, "v", change), podpatch.Admission(cut(t, annotations), "v", change))
	}
}
