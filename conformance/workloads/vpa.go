package workloads

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func (r Random) vpa(pod *corev1.Pod) *vpav1.VerticalPodAutoscaler {
	out := &vpav1.VerticalPodAutoscaler{ObjectMeta: meta("web")}
	out.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	mode := OneOf(r, vpav1.UpdateModeInitial, vpav1.UpdateModeRecreate, vpav1.UpdateModeRecreate, vpav1.UpdateModeInPlaceOrRecreate,
		vpav1.UpdateModeInPlaceOrRecreate, vpav1.UpdateModeInPlace)
	if r.In(3) {
		mode = vpav1.UpdateModeOff
	}
	out.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode}
	if r.In(8) {
		out.Spec.StartupBoost = r.boost()
	}
	if r.In(65) {
		out.Spec.ResourcePolicy = r.policy(pod)
	}
	out.Status.Recommendation = r.recommendation(pod)
	return out
}

func (r Random) policy(pod *corev1.Pod) *vpav1.PodResourcePolicy {
	out := &vpav1.PodResourcePolicy{}
	add := func(name string, near corev1.ResourceRequirements) {
		out.ContainerPolicies = append(out.ContainerPolicies, r.containerPolicy(name, near))
	}
	for i := range pod.Spec.Containers {
		if i < 6 && r.In(35) {
			add(pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Resources)
		}
	}
	if r.In(30) {
		add("*", pod.Spec.Containers[0].Resources)
	}
	often := 8
	if pod.Spec.Resources != nil {
		often = 60
	}
	if r.In(often) {
		out.PodPolicies = r.podPolicies(pod)
	}
	return out
}

func (r Random) containerPolicy(name string, near corev1.ResourceRequirements) vpav1.ContainerResourcePolicy {
	out := vpav1.ContainerResourcePolicy{ContainerName: name}
	out.MinAllowed, out.MaxAllowed = r.allowed(12, near.Requests)
	switch r.IntN(10) {
	case 0, 1:
		out.Mode = ptr.To(vpav1.ContainerScalingModeOff)
	case 2, 3, 4:
		out.ControlledValues = ptr.To(vpav1.ContainerControlledValuesRequestsOnly)
	case 5, 6:
		out.RequestToLimitRatio = &vpav1.RequestToLimitRatio{CPU: r.ratio(corev1.ResourceCPU), Memory: r.ratio(corev1.ResourceMemory)}
	}
	if r.In(12) {
		out.ControlledResources = &[]corev1.ResourceName{OneOf(r, both...)}
	}
	if r.In(10) {
		out.MemoryPerCPU = ptr.To(quantity.Must(OneOf(r, "64Mi", "512Mi", "1Gi", "4Gi")))
	}
	if r.In(10) {
		out.StartupBoost = r.boost()
	}
	return out
}

// allowed are a minimum and a maximum, each in so many of a hundred cases, near some requests.
func (r Random) allowed(percent int, near corev1.ResourceList) (least, most corev1.ResourceList) {
	for _, name := range both {
		q, requested := near[name]
		if !requested || r.In(30) {
			q = r.amount(name, 5)
		}
		low := times(name, q, OneOf(r, 0.01, 0.5, 1, 1, 1.5, 4))
		if r.In(percent) {
			set(&least, name, low)
		}
		if r.In(percent) {
			set(&most, name, times(name, low, OneOf(r, 1, 1, 1.2, 2, 10)))
		}
	}
	return least, most
}

func (r Random) podPolicies(pod *corev1.Pod) *vpav1.PodPolicies {
	out := &vpav1.PodPolicies{}
	out.MinAllowed, out.MaxAllowed = r.allowed(20, helpers.PodRequests(requestsFilledIn(pod), helpers.PodResourcesOptions{}))
	if r.In(25) {
		out.ControlledValues = ptr.To(vpav1.ContainerControlledValuesRequestsOnly)
	}
	if r.In(15) {
		out.ControlledResources = &[]corev1.ResourceName{OneOf(r, both...)}
	}
	return out
}

func (r Random) boost() *vpav1.StartupBoost {
	if r.In(60) {
		return &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: vpav1.ScaleFactor, Factor: ptr.To(OneOf[int32](r, 1, 2, 3, 10, 1000))}}
	}
	return &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: vpav1.ScaleQuantity, Quantity: ptr.To(r.amount(corev1.ResourceCPU, 10))}}
}

func (r Random) ratio(name corev1.ResourceName) *vpav1.ResourceRatio {
	switch {
	case r.In(30):
		return nil
	case r.In(40):
		return &vpav1.ResourceRatio{Type: vpav1.ScaleQuantity, Quantity: ptr.To(r.amount(name, 5))}
	}
	return &vpav1.ResourceRatio{Type: vpav1.ScaleFactor, Factor: ptr.To(OneOf[vpav1.Decimal](r, "1", "1.2", "1.0000001", "2", "4", "1000"))}
}

// recommendation is one that a recommender could have written, or an outdated one: far below, near
// and far above what containers request, for most of them.
func (r Random) recommendation(pod *corev1.Pod) *vpav1.RecommendedPodResources {
	out := &vpav1.RecommendedPodResources{}
	far := OneOf(r, 0.02, 0.1, 0.5, 1, 1, 1.5, 4, 20)
	sum := corev1.ResourceList{}
	add := func(name string, near corev1.ResourceList) {
		recommended := vpav1.RecommendedContainerResources{ContainerName: name}
		recommended.Target, recommended.LowerBound, recommended.UpperBound = r.target(near, far)
		for name, q := range recommended.Target {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
		out.ContainerRecommendations = append(out.ContainerRecommendations, recommended)
	}
	filled := requestsFilledIn(pod)
	for i := range filled.Spec.Containers {
		if r.In(93) {
			add(filled.Spec.Containers[i].Name, filled.Spec.Containers[i].Resources.Requests)
		}
	}
	if r.In(4) {
		add("gone", nil)
	}
	if filled.Spec.Resources != nil && r.In(90) {
		whole := &vpav1.RecommendedResources{Target: sum}
		if r.In(35) {
			whole.Target, whole.LowerBound, whole.UpperBound = r.target(filled.Spec.Resources.Requests, far)
		}
		out.PodRecommendation = whole
	}
	return out
}

func (r Random) target(near corev1.ResourceList, far float64) (target, lower, upper corev1.ResourceList) {
	target = corev1.ResourceList{}
	for _, name := range both {
		if r.In(4) {
			continue
		}
		q, requested := near[name]
		switch {
		case r.In(2):
			q = quantity.Must(OneOf(r, "0", "9223372036854775807", "9223372036854775807m"))
		case !requested || r.In(25):
			q = r.amount(name, 5)
		default:
			if r.In(30) {
				far = OneOf(r, 0.02, 0.1, 0.5, 1, 1, 1.5, 4, 20)
			}
			q = times(name, q, far*(0.7+0.6*r.Float64()))
		}
		target[name] = q
		set(&lower, name, times(name, q, OneOf(r, 1, 0.9, 0.5)))
		set(&upper, name, times(name, q, OneOf(r, 1, 1.1, 3)))
	}
	return target, lower, upper
}
