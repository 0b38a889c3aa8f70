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
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/poddefaults"
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

// shape says which of request and limit a container has.
type shape int

const (
	nothing shape = iota
	requestOnly
	limitOnly
	equal
	different
)

// Pod generates a pod as written. Its name and images are such that API servers take it.
func (r Random) Pod() *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: meta("web-1")}
	t := r.temper()
	usual := map[corev1.ResourceName]shape{}
	for _, name := range both {
		usual[name] = OneOf(r, nothing, requestOnly, limitOnly, equal, different, different, different)
	}
	alike := OneOf(r, 0, 60, 100, 100)
	resources := func() corev1.ResourceRequirements {
		var out corev1.ResourceRequirements
		for _, name := range both {
			like := usual[name]
			if !r.In(alike) {
				like = OneOf(r, nothing, requestOnly, requestOnly, limitOnly, equal, different, different)
			}
			r.stanza(&out, name, like, t)
		}
		return out
	}
	if r.In(30) {
		for i := range OneOf(r, 1, 1, 2) {
			c := corev1.Container{Name: numbered("i", i), Image: "x", Resources: resources()}
			if r.In(65) {
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			}
			out.Spec.InitContainers = append(out.Spec.InitContainers, c)
		}
	}
	n := OneOf(r, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4)
	if r.IntN(250) == 0 {
		n = 50
	}
	for i := range n {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: numbered("c", i), Image: "x", Resources: resources()})
	}
	if r.In(20) {
		out.Spec.Resources = r.podLevel(out)
	}
	return out
}

func (r Random) stanza(out *corev1.ResourceRequirements, name corev1.ResourceName, like shape, t temper) {
	request := r.amount(name, t)
	switch like {
	case requestOnly:
		set(&out.Requests, name, request)
	case limitOnly:
		set(&out.Limits, name, request)
	case equal:
		set(&out.Requests, name, request)
		set(&out.Limits, name, request)
	case different:
		set(&out.Requests, name, request)
		limit := times(name, request, OneOf(r, 1, 1.2, 1.5, 2, 2, 2, 3, 4, 10, 16, 100))
		if other := r.amount(name, t); r.In(30) && other.Cmp(request) >= 0 {
			limit = other
		}
		set(&out.Limits, name, limit)
	}
}

// podLevel are pod-level resources that cover those of the containers.
func (r Random) podLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	out := &corev1.ResourceRequirements{}
	requests := helpers.AggregateContainerRequests(requestsFilledIn(pod), helpers.PodResourcesOptions{})
	for _, name := range both {
		if r.In(20) {
			continue
		}
		request := requests[name].DeepCopy()
		if r.In(70) {
			request.Add(r.amount(name, 0))
		}
		if r.In(80) {
			set(&out.Requests, name, request)
		}
		if r.In(50) {
			set(&out.Limits, name, r.podLimit(pod, name, request))
		}
	}
	return out
}

// podLimit is one that no container's own limit exceeds.
func (r Random) podLimit(pod *corev1.Pod, name corev1.ResourceName, request resource.Quantity) resource.Quantity {
	limit := request.DeepCopy()
	if r.In(60) {
		limit.Add(r.amount(name, 1))
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if own := list[i].Resources.Limits[name]; own.Cmp(limit) > 0 {
				limit = own.DeepCopy()
			}
		}
	}
	return limit
}

// requestsFilledIn is the pod with requests where there are limits only, as API servers store it.
func requestsFilledIn(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	for _, list := range [][]corev1.Container{out.Spec.Containers, out.Spec.InitContainers} {
		for i := range list {
			for name, q := range list[i].Resources.Limits {
				if _, there := list[i].Resources.Requests[name]; !there {
					set(&list[i].Resources.Requests, name, q)
				}
			}
		}
	}
	return out
}

// limitRanges are some that the pod usually fits into, often without room.
func (r Random) limitRanges(pod *corev1.Pod) (out []corev1.LimitRange) {
	filled := pod.DeepCopy()
	add := func(items ...corev1.LimitRangeItem) {
		limitRange := corev1.LimitRange{ObjectMeta: meta(numbered("l", len(out))), Spec: corev1.LimitRangeSpec{Limits: items}}
		out = append(out, limitRange)
		stored := limitRange.DeepCopy()
		poddefaults.LimitRange(stored)
		poddefaults.BeforeWebhooks(filled, []corev1.LimitRange{*stored})
	}
	poddefaults.BeforeWebhooks(filled, nil)
	switch r.IntN(10) {
	case 0:
	case 1, 2:
		add(r.ofContainers(filled))
	case 3, 4, 5:
		add(r.ofPods(filled))
	case 6, 7:
		container := r.ofContainers(filled)
		add(container)
		add(r.ofPods(filled))
	case 8:
		add(r.ofPods(filled), r.ofContainers(filled))
	default:
		for range 2 + r.IntN(2) {
			if r.In(50) {
				add(r.ofContainers(filled))
			} else {
				add(r.ofPods(filled))
			}
		}
	}
	return out
}

// extremes are the least and the most that some requests and limits are.
type extremes struct {
	least, most       resource.Quantity
	requested, limits bool // every one has a request, or a limit
	ratio             float64
}

func extremesOf(name corev1.ResourceName, pods ...corev1.ResourceRequirements) extremes {
	out := extremes{requested: true, limits: true, ratio: 1}
	for i, pod := range pods {
		request, requested := pod.Requests[name]
		limit, limited := pod.Limits[name]
		out.requested, out.limits = out.requested && requested, out.limits && limited
		for _, q := range []resource.Quantity{request, limit} {
			if q.Cmp(out.most) > 0 {
				out.most = q
			}
		}
		if i == 0 || request.Cmp(out.least) < 0 {
			out.least = request
		}
		if r := request.AsApproximateFloat64(); r > 0 && limited {
			out.ratio = max(out.ratio, limit.AsApproximateFloat64()/r)
		}
	}
	return out
}

func (r Random) ofContainers(pod *corev1.Pod) corev1.LimitRangeItem {
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer}
	var all []corev1.ResourceRequirements
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			all = append(all, list[i].Resources)
		}
	}
	for _, name := range both {
		if !r.In(70) {
			continue
		}
		e := extremesOf(name, all...)
		if !e.limits && r.In(60) {
			q := times(name, e.most, OneOf(r, 1.0, 1, 2))
			if q.IsZero() {
				q = r.amount(name, 0)
			}
			set(&item.Default, name, q)
			if q.Cmp(e.most) > 0 {
				e.most = q
			}
			e.limits = true
			if e.requested = e.requested || r.In(50); e.requested {
				least := times(name, q, OneOf(r, 1, 0.5, 0.1))
				set(&item.DefaultRequest, name, least)
				if e.least.IsZero() || least.Cmp(e.least) < 0 {
					e.least = least
				}
				e.ratio = max(e.ratio, 10)
			}
		}
		r.bounds(&item, name, e)
	}
	return item
}

func (r Random) ofPods(pod *corev1.Pod) corev1.LimitRangeItem {
	item := corev1.LimitRangeItem{Type: corev1.LimitTypePod}
	sum := corev1.ResourceRequirements{
		Requests: helpers.PodRequests(pod, helpers.PodResourcesOptions{}),
		Limits:   helpers.PodLimits(pod, helpers.PodResourcesOptions{}),
	}
	for _, name := range both {
		if r.In(70) {
			r.bounds(&item, name, extremesOf(name, sum))
		}
	}
	return item
}

// bounds are a minimum, a maximum and a ratio, each in some of the cases.
func (r Random) bounds(item *corev1.LimitRangeItem, name corev1.ResourceName, e extremes) {
	if r.In(50) && (e.requested || r.In(10)) {
		set(&item.Min, name, times(name, e.least, OneOf(r, 1, 1, 0.99, 0.9, 0.5, 0.5, 0.1)))
	}
	if r.In(55) && (e.limits || r.In(10)) {
		set(&item.Max, name, times(name, e.most, OneOf(r, 1, 1, 1.01, 1.2, 1.5, 2, 2, 10)))
	}
	if r.In(20) && (e.requested && e.limits || r.In(5)) {
		set(&item.MaxLimitRequestRatio, name, *resource.NewMilliQuantity(whole(e.ratio*1000*OneOf(r, 1, 1, 1.5, 2, 4)+0.999), resource.DecimalSI))
	}
}
