package upstream

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

var differencesOfBoosts = []podDifference{
	{
		name:    "boosts without their gate",
		why:     "A VPA with update mode Off whose boost does not count has nothing to do with new pods.",
		example: `object: {pod: {spec: {containers: [{name: a}]}}, vpa: {spec: {updatePolicy: {updateMode: "Off"}, startupBoost: {cpu: {type: Factor, factor: 2}}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return d.Kind == podOutcome && !r.Gates.CPUStartupBoost && upstreamapi.GetUpdateMode(r.VPA) == upstreamv1.UpdateModeOff && upstreamapi.HasStartupBoost(r.VPA) && r.Celvpa.Patch == nil
		},
	},
	{
		name: "boosts that cannot be",
		why:  "Of a factor that is missing or below 1, and of a negative quantity, all of which celvpa's webhook refuses, nothing comes; the rest of the pod is changed all the same.",
		example: `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: a}]}}, vpa: {spec: {startupBoost: {cpu: {type: Factor}}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m}}]}}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			if d.Kind == podOutcome {
				return slices.ContainsFunc(r.In.Pod.Spec.Containers, func(c corev1.Container) bool {
					b := r.boost(c.Name)
					return b != nil && b.CPU.Type != upstreamv1.QuantityStartupBoostType && (b.CPU.Factor == nil || *b.CPU.Factor < 1)
				})
			}
			b := r.boostOf(d)
			return b != nil && b.CPU.Quantity != nil && b.CPU.Quantity.Sign() < 0 && (d.Kind == podBoost || d.Resource == corev1.ResourceCPU || isNoLimit(d))
		},
	},
	{
		name:    "boosts of nothing",
		why:     "A multiple of a request that is not there is no request. Upstream writes one of 0.",
		example: `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: a}]}}, vpa: {spec: {startupBoost: {cpu: {type: Factor, factor: 2}}}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			b := r.boostOf(d)
			if b == nil || b.CPU.Type == upstreamv1.QuantityStartupBoostType || d.Kind != podBoost && d.Resource != corev1.ResourceCPU {
				return false
			}
			now := r.Upstream.Pod.Spec.Containers[d.Index].Resources.Requests[corev1.ResourceCPU]
			return now.IsZero()
		},
	},
	{
		name: "boosts beside defaults of LimitRanges",
		why:  "The default of LimitRanges counts as the limit of a container without one for the boost, too, so that what is requested does not exceed it.",
		example: `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, default: {cpu: 200m}}]}}],
vpa: {spec: {startupBoost: {cpu: {type: Factor, factor: 3}}}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			if r.boostOf(d) == nil || d.Kind == podRequests || d.Resource != corev1.ResourceCPU && !isNoLimit(d) {
				return false
			}
			limit := r.limit(d.Index)[corev1.ResourceCPU]
			return limit.IsZero() && r.hasDefaultCPU()
		},
	},
	{
		name:    "why limits of boosted containers are not set",
		why:     "vpaUpdates names the limits that go with the boost. Upstream names those that there would have been without it.",
		example: `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}}]}}, vpa: {spec: {startupBoost: {cpu: {type: Factor, factor: 3}}}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return r.boostOf(d) != nil && isNoLimit(d)
		},
	},
	{
		name: "maximums below a LimitRange, of boosted containers",
		why:  "With less than the minimum the pod could not be created again without its boost, so the minimum holds, and is what the boost multiplies. Upstream multiplies maxAllowed.",
		example: `{gates: {CPUStartupBoost: true}, object: {pod: {spec: {containers: [{name: c, resources: {limits: {cpu: 500m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, min: {cpu: 600m}}]}}],
vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: c, maxAllowed: {cpu: 400m}}]}, startupBoost: {cpu: {type: Factor, factor: 2}}}, status: {recommendation: {containerRecommendations: [{containerName: c, target: {cpu: 90m}}]}}}}}`,
		even: func(r *podResult, input map[string]any) bool {
			return r.Gates.CPUStartupBoost && r.raiseMaximums(input)
		},
	},
}
