package integration

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// fuzzedRanges are the LimitRanges of one namespace each.
var fuzzedRanges = [][]string{
	nil,
	nil,
	nil,
	{"[{type: Pod, max: {cpu: 2, memory: 4Gi}}]"},
	{"[{type: Pod, min: {cpu: 100m, memory: 200Mi}}]"},
	{"[{type: Pod, min: {cpu: 50m, memory: 64Mi}, max: {cpu: 800m, memory: 1Gi}}]"},
	{"[{type: Pod, max: {cpu: 400m}}]", "[{type: Pod, min: {memory: 50Mi}, max: {cpu: 500m}}]"},
	{"[{type: Container, min: {cpu: 10m, memory: 10Mi}, max: {cpu: 600m, memory: 1Gi}}]"},
	{"[{type: Container, default: {cpu: 500m, memory: 300Mi}, defaultRequest: {cpu: 50m}}, {type: Pod, max: {cpu: 3}}]"},
}

// random generates objects.
type random struct{ *rand.Rand }

func (r random) in(percent int) bool { return r.IntN(100) < percent }

func oneOf[T any](r random, list ...T) T { return list[r.IntN(len(list))] }

var (
	someCPU = []string{"0", "1m", "2m", "3m", "7m", "10m", "33m", "50m", "80m", "100m", "100m", "150m", "200m", "200m", "250m", "300m", "333m",
		"400m", "500m", "600m", "1", "1500m", "2", "4", "0.1234", "1e1"}
	someMemory = []string{"0", "1", "2", "7", "100m", "1500m", "1e3", "1Ki", "1M", "10Mi", "50Mi", "64Mi", "100Mi", "100Mi", "128Mi", "200Mi", "200Mi",
		"256Mi", "300Mi", "333333333", "512Mi", "1Gi", "1073741825", "2Gi", "4Gi", "16Gi"}
	extremeCPU    = []string{"9223372036854775807m", "9223372036854775807", "1E", "4611686018427387904m", "100k"}
	extremeMemory = []string{"9223372036854775807", "4611686018427387904", "1E", "8191Pi", "9223372036854775807m", "1Ti"}
)

func (r random) quantity(name corev1.ResourceName, extremes int) resource.Quantity {
	switch {
	case name == "cpu" && r.in(extremes):
		return resource.MustParse(oneOf(r, extremeCPU...))
	case name == "cpu":
		return resource.MustParse(oneOf(r, someCPU...))
	case r.in(extremes):
		return resource.MustParse(oneOf(r, extremeMemory...))
	}
	return resource.MustParse(oneOf(r, someMemory...))
}

// some are quantities for none, one or both resources.
func (r random) some(percent, extremes int) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range bothResources {
		if r.in(percent) {
			out[name] = r.quantity(name, extremes)
		}
	}
	return out
}

var bothResources = []corev1.ResourceName{"cpu", "memory"}

// pod is a pod that LimitRanges usually accept.
func (r random) pod(ranges []corev1.LimitRangeItem) (p *corev1.Pod) {
	for range 200 {
		p = r.anyPod()
		if fits(p, ranges) {
			break
		}
	}
	return p
}

func (r random) anyPod() *corev1.Pod {
	p := &corev1.Pod{}
	extremes := 0
	if r.in(5) {
		extremes = 20
	}
	if r.in(40) {
		for i := range 1 + r.IntN(2) {
			c := corev1.Container{Name: fmt.Sprintf("i%d", i), Resources: r.resources(extremes)}
			if r.in(60) {
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	for i := range oneOf(r, 1, 2, 2, 2, 3, 3, 4) {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i)}
		if r.in(75) {
			c.Resources = r.resources(extremes)
		}
		if r.in(5) {
			c.Resources.Limits = with(c.Resources.Limits, "example.com/gpu", resource.MustParse("2"))
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	if r.in(80) {
		p.Spec.Resources = r.podLevel(p)
	}
	return p
}

func with(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = q
	return list
}

// resources are requests, and limits that are no lower.
func (r random) resources(extremes int) (out corev1.ResourceRequirements) {
	out.Requests = r.some(80, extremes)
	for _, name := range bothResources {
		request, requested := out.Requests[name]
		switch {
		case r.in(45):
		case requested && r.in(30):
			out.Limits = with(out.Limits, name, request)
		default:
			if limit := r.quantity(name, extremes); limit.Cmp(request) >= 0 {
				out.Limits = with(out.Limits, name, limit)
			}
		}
	}
	return out
}

// podLevel are resources that cover the containers' requests.
func (r random) podLevel(p *corev1.Pod) *corev1.ResourceRequirements {
	out := &corev1.ResourceRequirements{}
	requests, _ := totals(p)
	for _, name := range bothResources {
		if r.in(15) {
			continue
		}
		least := requests[name]
		request := least.DeepCopy()
		if r.in(70) {
			request.Add(r.quantity(name, 0))
		}
		if r.in(85) {
			out.Requests = with(out.Requests, name, request)
		}
		if r.in(50) {
			limit := request.DeepCopy()
			if r.in(60) {
				limit.Add(r.quantity(name, 1))
			}
			for i := range p.Spec.Containers {
				if q, ok := p.Spec.Containers[i].Resources.Limits[name]; ok && q.Cmp(limit) > 0 {
					limit = q
				}
			}
			out.Limits = with(out.Limits, name, limit)
		}
	}
	return out
}

// vpa is a VPA with a recommendation for such pods.
func (r random) vpa(ns, name string) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	v.Spec.TargetRef = crossVersion("apps/v1", "ReplicaSet", name)
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(oneOf(r, vpav1.UpdateModeInitial, vpav1.UpdateModeInitial, vpav1.UpdateModeRecreate,
		vpav1.UpdateModeInPlaceOrRecreate, vpav1.UpdateModeInPlace, vpav1.UpdateModeOff))}
	if r.in(10) {
		v.Spec.StartupBoost = r.boost()
	}
	if r.in(60) {
		v.Spec.ResourcePolicy = r.policy()
	}
	v.Status.Recommendation = r.recommendation()
	return v
}

func (r random) policy() *vpav1.PodResourcePolicy {
	out := &vpav1.PodResourcePolicy{}
	for _, name := range []string{"*", "c0", "c1", "c2"} {
		if !r.in(40) {
			continue
		}
		c := vpav1.ContainerResourcePolicy{ContainerName: name, MinAllowed: r.some(10, 2), MaxAllowed: r.some(10, 2)}
		if r.in(25) {
			c.Mode = ptr.To(vpav1.ContainerScalingModeOff)
		} else if r.in(30) {
			c.ControlledValues = ptr.To(vpav1.ContainerControlledValuesRequestsOnly)
		} else if r.in(30) {
			c.RequestToLimitRatio = &vpav1.RequestToLimitRatio{CPU: r.ratio("cpu"), Memory: r.ratio("memory")}
		}
		if r.in(10) {
			c.ControlledResources = &[]corev1.ResourceName{oneOf(r, bothResources...)}
		}
		if r.in(15) {
			c.StartupBoost = r.boost()
		}
		out.ContainerPolicies = append(out.ContainerPolicies, c)
	}
	if r.in(40) {
		out.PodPolicies = &vpav1.PodPolicies{MinAllowed: r.some(15, 2), MaxAllowed: r.some(25, 2)}
		if r.in(30) {
			out.PodPolicies.ControlledValues = ptr.To(vpav1.ContainerControlledValuesRequestsOnly)
		}
		if r.in(15) {
			out.PodPolicies.ControlledResources = &[]corev1.ResourceName{oneOf(r, bothResources...)}
		}
	}
	return out
}

func (r random) boost() *vpav1.StartupBoost {
	if r.in(3) {
		return &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: vpav1.ScaleQuantity, Quantity: ptr.To(resource.MustParse("-100m"))}}
	}
	if r.in(50) {
		return &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: vpav1.ScaleFactor, Factor: ptr.To[int32](oneOf[int32](r, 1, 2, 3, 1000))}}
	}
	return &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: vpav1.ScaleQuantity, Quantity: ptr.To(r.quantity("cpu", 5))}}
}

func (r random) ratio(name corev1.ResourceName) *vpav1.ResourceRatio {
	switch {
	case r.in(30):
		return nil
	case r.in(3):
		return &vpav1.ResourceRatio{Type: vpav1.ScaleQuantity, Quantity: ptr.To(resource.MustParse("-100m"))}
	case r.in(50):
		return &vpav1.ResourceRatio{Type: vpav1.ScaleQuantity, Quantity: ptr.To(r.quantity(name, 2))}
	}
	return &vpav1.ResourceRatio{Type: vpav1.ScaleFactor, Factor: ptr.To(oneOf[vpav1.Decimal](r, "1", "1.2", "1.0000001", "4", "1000"))}
}

// recommendation is one that a recommender could have written, an outdated one, or neither.
func (r random) recommendation() *vpav1.RecommendedPodResources {
	out := &vpav1.RecommendedPodResources{}
	extremes := 0
	if r.in(15) {
		extremes = 30
	}
	sum := corev1.ResourceList{}
	for _, name := range []string{"c0", "gone", "c1", "c2", "c3"} {
		if !r.in(80) {
			continue
		}
		target := r.some(90, extremes)
		if r.in(2) {
			target["cpu"] = resource.MustParse("-100m")
		}
		for resource, q := range target {
			total := sum[resource]
			total.Add(q)
			sum[resource] = total
		}
		out.ContainerRecommendations = append(out.ContainerRecommendations, vpav1.RecommendedContainerResources{ContainerName: name,
			Target: target, LowerBound: r.some(90, extremes), UpperBound: r.some(90, extremes)})
	}
	switch {
	case r.in(50):
		out.PodRecommendation = &vpav1.RecommendedResources{Target: sum}
	case r.in(70):
		out.PodRecommendation = &vpav1.RecommendedResources{Target: r.some(80, extremes), LowerBound: r.some(50, 1), UpperBound: r.some(50, 1)}
	}
	return out
}
