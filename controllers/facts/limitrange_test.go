package facts

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/engine/lang"
)

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func rangeOf(name string, items ...corev1.LimitRangeItem) corev1.LimitRange {
	return corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func TestLimitRangesAreFolded(t *testing.T) {
	const ofContainers, ofPods = corev1.LimitTypeContainer, corev1.LimitTypePod
	resources := func(cpu, memory int64) *lang.Record {
		r := resourcesSchema.New()
		if cpu > 0 {
			r.SetInt("cpu", cpu)
		}
		if memory > 0 {
			r.SetInt("memory", memory)
		}
		return r
	}
	says := func(min, max, otherwise *lang.Record) *lang.Record {
		return limitRangeSchema.New().SetRecord("min", min).SetRecord("max", max).SetRecord("default", otherwise)
	}
	none := resources(0, 0)
	for _, tt := range []struct {
		name  string
		list  []corev1.LimitRange
		want  *lang.Record
		names []string
	}{
		{name: "none", want: limitRangesSchema.New()},
		{name: "of another type", list: []corev1.LimitRange{rangeOf("a", corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Max: amounts("storage", "1Gi")})}, want: limitRangesSchema.New()},
		{
			name: "one that gives requests alone bounds nothing, but is one of type Container", names: []string{"a"},
			list: []corev1.LimitRange{rangeOf("a", corev1.LimitRangeItem{Type: ofContainers, DefaultRequest: amounts("cpu", "1")})},
			want: limitRangesSchema.New(),
		},
		{
			name: "of minimums the highest, of maximums the lowest", names: []string{"a", "b"},
			list: []corev1.LimitRange{
				rangeOf("a", corev1.LimitRangeItem{Type: ofContainers, Min: amounts("cpu", "1", "memory", "2"), Max: amounts("cpu", "9", "memory", "8")}),
				rangeOf("b", corev1.LimitRangeItem{Type: ofContainers, Min: amounts("cpu", "2", "memory", "1"), Max: amounts("cpu", "8", "memory", "9")}),
			},
			want: limitRangesSchema.New().SetRecord("container", says(resources(2000, 2), resources(8000, 8), none)),
		},
		{
			name: "of ratios the lowest, in thousandths, by resource and by type; it is no bound of its own", names: []string{"a", "b"},
			list: []corev1.LimitRange{
				rangeOf("a",
					corev1.LimitRangeItem{Type: ofContainers, MaxLimitRequestRatio: amounts("cpu", "2.5", "memory", "2")},
					corev1.LimitRangeItem{Type: ofPods, MaxLimitRequestRatio: amounts("memory", "1.0001", "nvidia.com/gpu", "1")}),
				rangeOf("b", corev1.LimitRangeItem{Type: ofContainers, MaxLimitRequestRatio: amounts("cpu", "1.5", "memory", "3")}),
			},
			want: limitRangesSchema.New().SetRecord("maxLimitRequestRatio", maxRatiosByTypeSchema.New().
				SetRecord("container", maxRatiosSchema.New().SetInt("cpu", 1500).SetInt("memory", 2000)).
				SetRecord("pod", maxRatiosSchema.New().SetInt("memory", 1001))),
		},
		{
			name: "by resource and by type", names: []string{"a"},
			list: []corev1.LimitRange{rangeOf("a",
				corev1.LimitRangeItem{Type: ofContainers, Min: amounts("cpu", "1")},
				corev1.LimitRangeItem{Type: ofPods, Max: amounts("memory", "8", "nvidia.com/gpu", "1")},
				corev1.LimitRangeItem{Type: ofContainers, Max: amounts("memory", "4")})},
			want: limitRangesSchema.New().SetRecord("container", says(resources(1000, 0), resources(0, 4), none)).SetRecord("pod", says(none, resources(0, 8), none)),
		},
		{
			name: "the default is that of the last by name, as a whole", names: []string{"a", "b"},
			list: []corev1.LimitRange{
				rangeOf("b", corev1.LimitRangeItem{Type: ofContainers, Default: amounts("cpu", "2")}),
				rangeOf("a", corev1.LimitRangeItem{Type: ofContainers, Default: amounts("cpu", "1", "memory", "1")}),
			},
			want: limitRangesSchema.New().SetRecord("container", says(none, none, resources(2000, 0))),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := FoldLimitRanges(tt.list)
			same(t, tt.want, got.bind())
			require.Equal(t, tt.names, got.ofContainers)
		})
	}
	same(t, limitRangesSchema.New(), (*LimitRanges)(nil).bind())
}

// KEP-2837: sidecars run beside the containers; other init containers run one by one beside the
// sidecars started before them.
func TestInitContainersCountAsAPIServersCountThem(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	one := func(sidecar bool, cpu string) corev1.Container {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts("cpu", cpu)}}
		if sidecar {
			c.RestartPolicy = &always
		}
		return c
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{one(false, "5"), one(true, "1"), one(false, "3"), one(true, "2")}}}
	got := initRequests(pod)
	running, _ := got.Field("running").(*lang.Record).Int("cpu")
	peak, _ := got.Field("peak").(*lang.Record).Int("cpu")
	require.EqualValues(t, 3000, running)
	require.EqualValues(t, 5000, peak)
}

func TestAPodHasResourcesAtPodLevelWhereCPUOrMemoryAreThere(t *testing.T) {
	of := func(r *corev1.ResourceRequirements, actual *corev1.ResourceRequirements) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Resources: r}, Status: corev1.PodStatus{Resources: actual}}
	}
	_, _, ok := podResourcesOf(of(nil, &corev1.ResourceRequirements{Requests: amounts("cpu", "1")}))
	require.False(t, ok)
	_, _, ok = podResourcesOf(of(&corev1.ResourceRequirements{Limits: amounts("hugepages-2Mi", "2Mi")}, nil))
	require.False(t, ok)
	_, limits, ok := podResourcesOf(of(&corev1.ResourceRequirements{Limits: amounts("memory", "1")}, nil))
	require.True(t, ok)
	require.Len(t, limits, 1)
	requests, _, ok := podResourcesOf(of(&corev1.ResourceRequirements{Requests: amounts("cpu", "1")}, &corev1.ResourceRequirements{Requests: amounts("cpu", "2")}))
	require.True(t, ok)
	require.Equal(t, "2", requests.Cpu().String(), "what the node granted")
}

// Applies where a pod has no request.
func TestRequestsAreDefaultedAsAPIServersDo(t *testing.T) {
	container := func(pairs ...string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts(pairs...)}}
	}
	for _, tt := range []struct {
		name                   string
		requests, limits, want corev1.ResourceList
		containers, init       []corev1.Container
	}{
		{name: "what the containers request together", limits: amounts("cpu", "4"), containers: []corev1.Container{container("cpu", "1"), container("cpu", "500m"), {}}, want: amounts("cpu", "1500m")},
		{name: "else the limit", limits: amounts("cpu", "4", "memory", "1Gi"), containers: []corev1.Container{container("memory", "1Mi")}, want: amounts("cpu", "4", "memory", "1Mi")},
		{name: "init containers count, too", limits: amounts("cpu", "4"), init: []corev1.Container{container("cpu", "2")}, containers: []corev1.Container{container("cpu", "1")}, want: amounts("cpu", "2")},
		{name: "be they the only ones", limits: amounts("memory", "4"), init: []corev1.Container{container("memory", "2")}, want: amounts("memory", "2")},
		{name: "not where there is a request", requests: amounts("cpu", "1"), limits: amounts("cpu", "4"), want: amounts()},
		{name: "what containers request needs no limit", requests: amounts("cpu", "1"), containers: []corev1.Container{container("memory", "1Mi")}, want: amounts("memory", "1Mi")},
		{name: "nothing without requests and limit", requests: amounts("cpu", "1"), containers: []corev1.Container{{}}, want: amounts()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: tt.containers, InitContainers: tt.init}}
			same(t, Resources(tt.want), defaultRequests(pod, tt.requests, tt.limits, initRequests(pod)))
		})
	}
}

// API servers accept 1500m of memory, which is not a whole number of bytes.
func TestFractionsAreNoReasonToRefuseAPod(t *testing.T) {
	held := ResourceChange{Requests: QuantitiesOf(amounts("cpu", "1", "memory", "2"))}
	held.keepFractions(amounts("cpu", "2", "memory", "1500m"))
	require.Equal(t, amounts("cpu", "1", "memory", "1500m"), held.Requests.List())
	free := ResourceChange{Requests: QuantitiesOf(amounts("memory", "2")), Limits: QuantitiesOf(amounts("memory", "4"))}
	free.keepFractions(amounts("memory", "1500m"))
	require.Equal(t, amounts("memory", "2"), free.Requests.List(), "the limit is written, too")
}
