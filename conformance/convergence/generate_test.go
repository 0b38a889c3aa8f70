package convergence

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// scenario is a workload, its VPA and its cluster.
type scenario struct {
	template       *corev1.Pod
	vpa            *vpav1.VerticalPodAutoscaler
	ranges         []corev1.LimitRange
	filledInBefore bool // API servers complete pod-level requests before admission, as up to Kubernetes 1.36
	plan           *engine.Plan
}

// random generates scenarios, reproducibly by seed.
type random struct{ *rand.Rand }

// chance is true in so many of a hundred cases.
func (r random) chance(percent int) bool { return r.IntN(100) < percent }

func oneOf[T any](r random, list ...T) T { return list[r.IntN(len(list))] }

// amounts by resource, in no regular ratio to each other.
var amounts = map[corev1.ResourceName][]string{
	corev1.ResourceCPU:    {"10m", "33m", "50m", "80m", "100m", "150m", "200m", "250m", "300m", "333m", "400m", "500m", "600m", "1", "1500m", "2"},
	corev1.ResourceMemory: {"50Mi", "64Mi", "100Mi", "128Mi", "200Mi", "256Mi", "300Mi", "333333333", "512Mi", "1Gi", "2Gi"},
}

func (r random) amount(name corev1.ResourceName) resource.Quantity {
	return resource.MustParse(oneOf(r, amounts[name]...))
}

// some has an amount of each resource in so many of a hundred cases.
func (r random) some(percent int) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range facts.ScaledResources {
		if r.chance(percent) {
			out[name] = r.amount(name)
		}
	}
	return out
}

func (r random) resources() corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Requests: r.some(65), Limits: corev1.ResourceList{}}
	for _, name := range facts.ScaledResources {
		request, requested := out.Requests[name]
		if limit := r.amount(name); requested && r.chance(40) && limit.Cmp(request) >= 0 {
			out.Limits[name] = limit
		}
	}
	return out
}

func (r random) pod() *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	if r.chance(15) {
		c := corev1.Container{Name: "init", Resources: r.resources()}
		if r.chance(60) {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		out.Spec.InitContainers = append(out.Spec.InitContainers, c)
	}
	for i := range oneOf(r, 1, 2, 2, 3) {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i)}
		if r.chance(60) {
			c.Resources = r.resources()
		}
		out.Spec.Containers = append(out.Spec.Containers, c)
	}
	if r.chance(70) {
		out.Spec.Resources = r.podLevel(out)
	}
	return out
}

// podLevel is pod-level resources that the containers of the pod fit into.
func (r random) podLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	out := &corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, name := range facts.ScaledResources {
		if r.chance(20) {
			continue
		}
		request := r.amount(name)
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range list {
				request.Add(list[i].Resources.Requests[name])
			}
		}
		if r.chance(85) {
			out.Requests[name] = request
		}
		if r.chance(50) {
			limit := request.DeepCopy()
			if r.chance(60) {
				limit.Add(r.amount(name))
			}
			for i := range pod.Spec.Containers {
				if most := pod.Spec.Containers[i].Resources.Limits[name]; most.Cmp(limit) > 0 {
					limit = most
				}
			}
			out.Limits[name] = limit
		}
	}
	return out
}

func (r random) ratio(name corev1.ResourceName) *vpav1.ResourceRatio {
	switch {
	case r.chance(30):
		return nil
	case r.chance(50):
		return &vpav1.ResourceRatio{Type: vpav1.ScaleQuantity, Quantity: ptr.To(r.amount(name))}
	}
	return &vpav1.ResourceRatio{Type: vpav1.ScaleFactor, Factor: ptr.To(oneOf[vpav1.Decimal](r, "1", "1.2", "2", "4"))}
}

func (r random) vpa() *vpav1.VerticalPodAutoscaler {
	out := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "v"}}
	out.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(vpav1.UpdateModeRecreate)}
	if r.chance(30) {
		return out
	}
	policy := &vpav1.PodResourcePolicy{}
	out.Spec.ResourcePolicy = policy
	for _, name := range []string{"*", "c0", "c1", "c2"} {
		if r.chance(35) {
			policy.ContainerPolicies = append(policy.ContainerPolicies, r.containerPolicy(name))
		}
	}
	if r.chance(45) {
		policy.PodPolicies = &vpav1.PodPolicies{MinAllowed: r.some(20), MaxAllowed: r.some(20)}
		if r.chance(25) {
			policy.PodPolicies.ControlledValues = ptr.To(vpav1.ContainerControlledValuesRequestsOnly)
		}
		if r.chance(10) {
			policy.PodPolicies.ControlledResources = &[]corev1.ResourceName{oneOf(r, facts.ScaledResources...)}
		}
	}
	return out
}

func (r random) containerPolicy(name string) vpav1.ContainerResourcePolicy {
	out := vpav1.ContainerResourcePolicy{ContainerName: name, MinAllowed: r.some(8), MaxAllowed: r.some(8)}
	switch {
	case r.chance(25):
		out.Mode = ptr.To(vpav1.ContainerScalingModeOff)
	case r.chance(25):
		out.ControlledValues = ptr.To(vpav1.ContainerControlledValuesRequestsOnly)
	case r.chance(30):
		out.RequestToLimitRatio = &vpav1.RequestToLimitRatio{CPU: r.ratio(corev1.ResourceCPU), Memory: r.ratio(corev1.ResourceMemory)}
	}
	if r.chance(10) {
		out.ControlledResources = &[]corev1.ResourceName{oneOf(r, facts.ScaledResources...)}
	}
	if r.chance(15) {
		out.MemoryPerCPU = ptr.To(resource.MustParse(oneOf(r, "512Mi", "1Gi", "4Gi")))
	}
	return out
}

// recommend writes what the recommender would, for random usage of a stored pod.
func (s *scenario) recommend(t *testing.T, r random, stored *corev1.Pod) {
	t.Helper()
	policies := facts.PolicyRulesOf(s.plan)
	var containers []facts.PodContainer
	for i := range stored.Spec.Containers {
		name := stored.Spec.Containers[i].Name
		policy := policies.For(s.vpa.Spec.ResourcePolicy, name)
		if policy != nil && policy.Mode != nil && *policy.Mode == vpav1.ContainerScalingModeOff {
			continue
		}
		bounds := facts.BoundsOf(r.usage(name))
		for i := range bounds {
			bounds[i] = bounds[i].Copy()
		}
		require.Empty(t, s.plan.RunStages(facts.ContainerRecommend, facts.RecommendFacts(s.plan, &vpav1.VerticalPodAutoscaler{}, name, facts.Policy(policy), facts.RecommendInput{}, bounds), nil))
		containers = append(containers, facts.PodContainer{Name: name, Policy: facts.Policy(policy), Bounds: bounds})
	}
	out := &vpav1.RecommendedPodResources{}
	if level := facts.PodLevel(stored); level != nil {
		_, cpu := level.Requests[corev1.ResourceCPU]
		_, memory := level.Requests[corev1.ResourceMemory]
		b, failed := facts.RecommendPod(s.plan, containers, facts.PodPolicy(s.vpa.Spec.ResourcePolicy), facts.PodRequests{CPU: cpu, Memory: memory}, nil)
		require.Empty(t, failed)
		if target := facts.ResourceList(b[0]); target != nil {
			out.PodRecommendation = &vpav1.RecommendedResources{Target: target, LowerBound: facts.ResourceList(b[1]), UpperBound: facts.ResourceList(b[2]), UncappedTarget: facts.ResourceList(b[3])}
		}
	}
	for _, c := range containers {
		out.ContainerRecommendations = append(out.ContainerRecommendations, vpav1.RecommendedContainerResources{
			ContainerName: c.Name, Target: facts.ResourceList(c.Bounds[0]),
			LowerBound: facts.ResourceList(c.Bounds[1]), UpperBound: facts.ResourceList(c.Bounds[2]), UncappedTarget: facts.ResourceList(c.Bounds[3]),
		})
	}
	s.vpa.Status.Recommendation = out
}

// usage is what the estimate for a container may be.
func (r random) usage(container string) *vpav1.RecommendedContainerResources {
	out := &vpav1.RecommendedContainerResources{ContainerName: container, Target: corev1.ResourceList{}, LowerBound: corev1.ResourceList{}, UpperBound: corev1.ResourceList{}, UncappedTarget: corev1.ResourceList{}}
	for _, name := range facts.ScaledResources {
		target := r.amount(name)
		out.Target[name], out.UncappedTarget[name] = target, target
		out.LowerBound[name], out.UpperBound[name] = percent(name, target, 90), percent(name, target, 115)
	}
	return out
}

func percent(name corev1.ResourceName, q resource.Quantity, n int64) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(q.MilliValue()*n/100, resource.DecimalSI)
	}
	return *resource.NewQuantity(q.Value()*n/100, resource.BinarySI)
}
