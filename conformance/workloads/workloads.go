// Package workloads generates workloads: a pod, the LimitRanges of its namespace and the VPA that
// controls it, with a recommendation. The pod usually fits its LimitRanges as written; whether it does,
// and whether the VPA is valid, is for the tests to ask. It holds no tests and knows no rules.
package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Namespace is that of all generated objects.
const Namespace = "shop"

// Workload is the pod of a workload as written, and what celvpa sees around it.
type Workload struct {
	LimitRanges []corev1.LimitRange          `json:"limitRanges,omitempty"`
	VPA         *vpav1.VerticalPodAutoscaler `json:"vpa"`
	Pod         *corev1.Pod                  `json:"pod"`
	// Later is the recommendation once the pod runs; nil = the one of the VPA.
	Later *vpav1.RecommendedPodResources `json:"later,omitempty"`
}

// Random generates objects, reproducibly by its seed.
type Random struct{ *rand.Rand }

// New returns the generator of a case of a seed.
func New(seed, number uint64) Random { return Random{rand.New(rand.NewPCG(seed, number))} }

// In is true in so many of a hundred cases.
func (r Random) In(percent int) bool { return r.IntN(100) < percent }

// OneOf is one of a list, all with the same probability.
func OneOf[T any](r Random, list ...T) T { return list[r.IntN(len(list))] }

var both = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Workload generates a workload.
func (r Random) Workload() *Workload {
	pod := r.Pod()
	w := &Workload{Pod: pod, LimitRanges: r.limitRanges(pod)}
	w.VPA = r.vpa(pod)
	if r.In(50) {
		w.Later = r.recommendation(pod)
	}
	return w
}

var amounts = map[corev1.ResourceName][]string{
	corev1.ResourceCPU: {"1m", "2m", "3m", "7m", "10m", "10m", "20m", "33m", "50m", "50m", "80m", "100m", "100m", "100m", "150m", "200m", "200m",
		"250m", "300m", "333m", "400m", "500m", "500m", "600m", "1", "1", "1500m", "2", "4", "8"},
	corev1.ResourceMemory: {"1", "7", "1Ki", "1M", "10Mi", "50Mi", "50Mi", "64Mi", "100Mi", "100Mi", "100Mi", "128Mi", "200Mi", "200Mi", "256Mi",
		"300Mi", "333333333", "512Mi", "1Gi", "1Gi", "1073741825", "2Gi", "4Gi", "7Gi", "16Gi"},
}

// odd amounts: 0, fractions of a unit, and the largest that API servers take.
var odd = map[corev1.ResourceName][]string{
	corev1.ResourceCPU:    {"0", "0", "0.1234", "9223372036854775807m", "9223372036854775807", "1E", "4611686018427387904m", "100k"},
	corev1.ResourceMemory: {"0", "0", "100m", "1500m", "9223372036854775807", "4611686018427387904", "1E", "8191Pi", "1Ti"},
}

// temper is how often, of a thousand, a pod's amounts are odd.
type temper int

func (r Random) temper() temper { return OneOf[temper](r, 0, 0, 0, 0, 0, 0, 0, 0, 5, 150) }

func (r Random) amount(name corev1.ResourceName, t temper) resource.Quantity {
	if r.IntN(1000) < int(t) {
		return quantity.Must(OneOf(r, odd[name]...))
	}
	return quantity.Must(OneOf(r, amounts[name]...))
}

// times is an amount times a factor, in whole units of rules: milli-cores or bytes.
func times(name corev1.ResourceName, q resource.Quantity, factor float64) resource.Quantity {
	if factor == 1 {
		return q.DeepCopy()
	}
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(whole(float64(q.MilliValue())*factor), resource.DecimalSI)
	}
	return *resource.NewQuantity(whole(float64(q.Value())*factor), resource.BinarySI)
}

func whole(x float64) int64 {
	if x >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(x)
}

func set(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = q
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name}
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s%d", prefix, i) }
