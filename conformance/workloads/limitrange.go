package workloads

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"

	"github.com/celvpa/celvpa/controllers/poddefaults"
)

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
