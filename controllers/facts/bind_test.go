package facts

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// same compares two facts with CEL equality.
func same(t *testing.T, want, got ref.Val) {
	t.Helper()
	require.Equal(t, types.True, want.Equal(got))
}

func pointerTo[T any](v T) *T { return &v }

func TestAVPAIsBoundAsItIsWritten(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	same(t, vpaSchema.New().SetString("name", "web").SetString("namespace", "shop").Put("labels", noLabels).Put("annotations", noLabels).SetOpaque("evictionRequirements", lang.Records(nil)).SetBool("boosts", false).SetBool("recommended", false), VPA(v))

	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{
		UpdateMode:  pointerTo(vpav1.UpdateMode("")),
		MinReplicas: pointerTo(int32(3)),
		EvictionRequirements: []*vpav1.EvictionRequirement{
			nil,
			{Resources: []corev1.ResourceName{corev1.ResourceCPU}, ChangeRequirement: vpav1.TargetHigherThanRequests},
			{Resources: []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU}, ChangeRequirement: vpav1.TargetLowerThanRequests},
		},
	}
	same(t, vpaSchema.New().SetString("name", "web").SetString("namespace", "shop").Put("labels", noLabels).Put("annotations", noLabels).SetString("updateMode", "").SetInt("minReplicas", 3).SetOpaque("evictionRequirements", lang.Records([]*lang.Record{
		requirementSchema.New().Put("resources", lang.ListFrom([]string{"cpu"})).SetString("change", "TargetHigherThanRequests"),
		requirementSchema.New().Put("resources", lang.ListFrom([]string{"memory", "cpu"})).SetString("change", "TargetLowerThanRequests"),
	})).SetBool("boosts", false).SetBool("recommended", false), VPA(v))

	v.Labels, v.Annotations = map[string]string{"tier": "batch"}, map[string]string{"example.com/hold": ""}
	for field, key := range map[string]string{"labels": "tier", "annotations": "example.com/hold"} {
		bound := VPA(v).Get(lang.Text(field)).(traits.Mapper)
		require.Equal(t, types.True, bound.Contains(lang.Text(key)), field)
		require.Equal(t, types.IntOne, bound.Size(), field)
	}
}

func TestWhatNamesAVPAIsTheSameAtAllPoints(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"tier": "batch"}}}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-app"}
	for _, bound := range []*lang.Record{vpaSchema.Of(v), metadata.Of(v)} {
		require.EqualValues(t, "web", bound.Get(lang.Text("name")))
		require.EqualValues(t, "shop", bound.Get(lang.Text("namespace")))
		same(t, targetRefSchema.New().SetString("kind", "Deployment").SetString("name", "web-app"), bound.Get(lang.Text("target")))
		require.Equal(t, types.IntOne, bound.Get(lang.Text("labels")).(traits.Mapper).Size())
	}
}

func TestAPodIsBoundAsItIs(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	state := &PodState{Now: now, Pod: &corev1.Pod{}}
	none := podSchema.Of(state)
	for _, field := range []string{"priorityClass", "owner", "resizedAge", "age"} {
		require.Equal(t, types.False, none.IsSet(lang.Text(field)), field)
	}
	require.EqualValues(t, "BestEffort", none.Get(lang.Text("qosClass")))

	state.Resized = now.Add(-time.Hour)
	state.Pod.Spec.PriorityClassName, state.Pod.Status.QOSClass = "high", corev1.PodQOSBurstable
	state.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Note", Name: "n"}, {Kind: "ReplicaSet", Name: "web-1", Controller: pointerTo(true)}}
	state.Pod.Annotations = map[string]string{"example.com/short": "x", "example.com/long": strings.Repeat("x", 256<<10), "vpaUpdates": "x"}
	pod := podSchema.Of(state)
	require.EqualValues(t, "high", pod.Get(lang.Text("priorityClass")))
	require.EqualValues(t, "Burstable", pod.Get(lang.Text("qosClass")))
	require.EqualValues(t, time.Hour, pod.Get(lang.Text("resizedAge")))
	same(t, ownerSchema.New().SetString("kind", "ReplicaSet").SetString("name", "web-1"), pod.Get(lang.Text("owner")))
	same(t, types.NewStringStringMap(types.DefaultTypeAdapter, map[string]string{"example.com/short": "x"}), pod.Get(lang.Text("annotations")))
}

func TestTheAgeOfAnOwnerIsUnsetIfItIsUnknown(t *testing.T) {
	_, known := groupSchema.Of(Group{}).Int("age")
	require.False(t, known)
	age, known := groupSchema.Of(Group{AgeKnown: true}).Int("age")
	require.True(t, known)
	require.Zero(t, age)
}

func TestAContainerPolicyIsBoundAsItIsWritten(t *testing.T) {
	same(t, policySchema.New(), Policy(nil))
	none := []corev1.ResourceName{}
	same(t, policySchema.New().SetString("mode", "Off").SetString("controlledValues", "RequestsOnly").
		SetRecord("minAllowed", resourcesSchema.New().SetInt("cpu", 1500)).
		SetRecord("maxAllowed", resourcesSchema.New().SetInt("memory", 1<<30)).
		Put("controlledResources", lang.ListFrom([]string{})),
		Policy(&vpav1.ContainerResourcePolicy{
			Mode:                pointerTo(vpav1.ContainerScalingModeOff),
			ControlledValues:    pointerTo(vpav1.ContainerControlledValuesRequestsOnly),
			ControlledResources: &none,
			MinAllowed:          corev1.ResourceList{"cpu": resource.MustParse("1.5"), "storage": resource.MustParse("1")},
			MaxAllowed:          corev1.ResourceList{"memory": resource.MustParse("1Gi")},
		}))
}

func TestTheParametersOfAPolicyAreBoundAsTheyAreWritten(t *testing.T) {
	seconds, count := int32(90), int64(5)
	quantity := func(text string) *resource.Quantity { return pointerTo(resource.MustParse(text)) }
	same(t, policySchema.New().SetDouble("oomBumpUpRatio", 1.5).SetInt("oomMinBumpUp", 104857600).
		SetInt("memoryAggregationInterval", int64(12*time.Hour)).SetInt("memoryAggregationIntervalCount", 5).SetInt("memoryPerCPU", 4<<30),
		Policy(&vpav1.ContainerResourcePolicy{
			OOMBumpUpRatio: quantity("1.5"), OOMMinBumpUp: quantity("100Mi"), MemoryPerCPU: quantity("4Gi"),
			MemoryAggregationInterval: &metav1.Duration{Duration: 12 * time.Hour}, MemoryAggregationIntervalCount: &count,
		}))
	// Quantities in thousandths: a ratio rounds up, bytes are truncated (UPSTREAM.md §2.20).
	same(t, policySchema.New().SetDouble("oomBumpUpRatio", 1.235).SetInt("oomMinBumpUp", 1).SetInt("memoryAggregationInterval", int64(90*time.Second)),
		Policy(&vpav1.ContainerResourcePolicy{
			OOMBumpUpRatio: quantity("1.2345"), OOMMinBumpUp: quantity("1999m"),
			MemoryAggregationIntervalSeconds: &seconds, MemoryAggregationInterval: &metav1.Duration{Duration: time.Hour},
		}))
	// Beyond 64 bits in thousandths they saturate.
	same(t, policySchema.New().SetDouble("oomBumpUpRatio", float64(math.MaxInt64)/1000).SetInt("oomMinBumpUp", 1e16),
		Policy(&vpav1.ContainerResourcePolicy{OOMBumpUpRatio: quantity("1e16"), OOMMinBumpUp: quantity("10P")}))
	same(t, policySchema.New().SetInt("oomMinBumpUp", math.MaxInt64), Policy(&vpav1.ContainerResourcePolicy{OOMMinBumpUp: quantity("10E")}))
}

func TestWholeCoresAreAskedForByAnnotation(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{}
	require.False(t, integerCPU(v, "a"))
	v.Annotations = map[string]string{"vpa-post-processor.kubernetes.io/a_integerCPU": "true", "vpa-post-processor.kubernetes.io/b_integerCPU": "yes"}
	require.True(t, integerCPU(v, "a"))
	require.False(t, integerCPU(v, "b"))
}

func TestReplicasThatAreNotKnownAreUnset(t *testing.T) {
	_, known := groupSchema.Of(Group{Live: 4}).Int("configured")
	require.False(t, known)
	n, _ := groupSchema.Of(Group{Configured: 4}).Int("configured")
	require.EqualValues(t, 4, n)
}

func TestAHistogramIsWrittenAsPercentiles(t *testing.T) {
	unit := lang.Unit{Name: CPU, Parse: func(s string) (int64, error) {
		q, err := parse(s)
		return MilliCPU(q), err
	}}
	v, err := readHistogram([]registry.Pair{{Key: "0.9", Value: "2"}, {Key: "0.5", Value: "500m"}, {Key: "0.95", Value: "3"}}, unit)
	require.NoError(t, err)
	for fraction, want := range map[float64]int64{0: 500, 0.5: 500, 0.51: 2000, 0.9: 2000, 0.94: 3000, 0.95: 3000, 1: 3000} {
		require.Equal(t, want, v.(Histogram).Percentile(fraction), fraction)
	}
	for text, pairs := range map[string][]registry.Pair{
		"a histogram needs at least one percentile":    nil,
		`"high" is not a fraction between 0 and 1`:     {{Key: "high", Value: "1"}},
		`"1.1" is not a fraction between 0 and 1`:      {{Key: "1.1", Value: "1"}},
		`"NaN" is not a fraction between 0 and 1`:      {{Key: "NaN", Value: "1"}},
		`"much" is not a quantity such as 250m or 4Gi`: {{Key: "0.5", Value: "much"}},
	} {
		_, err := readHistogram(pairs, unit)
		require.ErrorContains(t, err, text)
	}
}
