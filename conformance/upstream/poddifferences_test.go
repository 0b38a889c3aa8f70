package upstream

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// podDifference is a deliberate difference between the pods that celvpa and upstream admit. Its
// name is a heading of the table in docs/upstream-differences.md.
type podDifference struct {
	name    string
	why     string
	example string // a case in YAML that differs in this and in nothing else
	// explains reports whether this difference causes a discrepancy.
	explains func(r *podResult, d podDiscrepancy) bool
	// even changes the case so that upstream answers it like celvpa answers the original, apart
	// from other differences. It reports whether there was anything to change. Either of the two
	// may be nil.
	even func(r *podResult, input map[string]any) bool
	last bool // counts only where the others do not explain all
}

// whatBoundsPods is about vpaUpdates alone, and so comes with differences in what is written.
const whatBoundsPods = "what vpaUpdates says of bounds"

var deliberateOfPods = slices.Concat(differencesOfAmounts, differencesOfBoosts, differencesOfBounds)

var differencesOfAmounts = []podDifference{
	{
		name:    "nothing is said of containers that stay as they are",
		why:     "Upstream gives a container without resources an empty set of them, and names it in vpaUpdates, also where it has nothing to write.",
		example: `object: {pod: {spec: {containers: [{name: a}, {name: b}]}}, vpa: {status: {recommendation: {containerRecommendations: [{containerName: b, target: {cpu: 250m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return d.Kind == podUpdates && d.Item == "" && !d.Ours && d.Index >= 0 && isBare(r.In.Pod.Spec.Containers[d.Index].Resources)
		},
	},
	{
		name: "containers with mode Off",
		why:  "They keep what they have, also where a recommendation from before is still in the status; where a LimitRange bounds pods they count, and are not scaled.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}, vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, mode: "Off"}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return d.Index >= 0 && r.In.limited(corev1.LimitTypePod) && slices.ContainsFunc(r.In.Pod.Spec.Containers, func(c corev1.Container) bool { return r.isOff(c.Name) })
		},
		even: func(r *podResult, input map[string]any) bool {
			list, _ := get(input, "vpa.status.recommendation.containerRecommendations").([]any)
			kept := slices.DeleteFunc(slices.Clone(list), func(one any) bool {
				name, _ := get(one, "containerName").(string)
				return r.isOff(name)
			})
			if len(kept) == len(list) {
				return false
			}
			put(input, placeOf("vpa.status.recommendation.containerRecommendations"), kept)
			return true
		},
	},
	{
		name: "resources that are not controlled",
		why:  "They keep what they have, also where a recommendation from before controlledResources was written is still in the status.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}, vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, controlledResources: [memory]}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m}}]}}}}`,
		even: func(r *podResult, input map[string]any) bool {
			changed := false
			list, _ := get(input, "vpa.status.recommendation.containerRecommendations").([]any)
			for _, entry := range list {
				if recommendation, ok := entry.(map[string]any); ok && r.dropUncontrolled(recommendation) {
					changed = true
				}
			}
			return changed
		},
	},
	{
		name: "defaults of LimitRanges in pods",
		why:  "A container without a limit is given one by the default of LimitRanges for containers, so that it counts where a LimitRange bounds the limits of the pod together.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, default: {cpu: 200m}},
{type: Pod, max: {cpu: 400m}}]}}], vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 400m}}]}}}}`,
		even: func(r *podResult, input map[string]any) bool {
			var given map[string]any
			list, _ := input["limitRanges"].([]any)
			for _, item := range itemsOf(list, "Container") {
				if amounts, ok := item["default"].(map[string]any); ok {
					given = amounts
				}
			}
			pods := slices.DeleteFunc(itemsOf(list, "Pod"), func(item map[string]any) bool { return item["min"] == nil && item["max"] == nil })
			if given == nil || len(pods) == 0 {
				return false
			}
			for _, item := range pods {
				item["default"] = given
			}
			return true
		},
	},
	{
		name: "limits that stay",
		why:  "Where a LimitRange bounds limits, those of containers with RequestsOnly count as they are. Upstream reckons as if they followed the recommendation, and changes requests for limits that it does not write.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 80m}, limits: {cpu: 600m}}}, {name: b, resources: {requests: {cpu: 500m}, limits: {cpu: 500m}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 2}}]}}], vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: "*", controlledValues: RequestsOnly}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 400m}}, {containerName: b, target: {cpu: 400m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			if d.Index < 0 {
				return false
			}
			return r.In.limited(corev1.LimitTypeContainer) && r.requestsOnly(r.In.Pod.Spec.Containers[d.Index].Name) ||
				r.In.limited(corev1.LimitTypePod) && slices.ContainsFunc(r.In.Pod.Spec.Containers, func(c corev1.Container) bool { return r.requestsOnly(c.Name) })
		},
	},
	{
		name: "limits of sidecars",
		why:  "LimitRanger adds them to those of the other containers, which upstream raises to the maximum of the pod all the same. The pod is then refused.",
		example: `object: {pod: {spec: {initContainers: [{name: i, restartPolicy: Always, resources: {limits: {memory: 128Mi}}}], containers: [{name: a, resources: {requests: {memory: 100M}, limits: {memory: 200M}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {memory: 512Mi}}]}}], vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {memory: 1G}}]}}}}`,
		even: func(r *podResult, input map[string]any) bool {
			changed := false
			for _, name := range bounded {
				changed = r.lowerMaximum(input, name) || changed
			}
			return changed
		},
	},
	{
		name: "minimums of pods",
		why:  "LimitRanger refuses a pod whose requests are a byte below the minimum. Upstream ends up there with memory, and raises nothing for pods without limits.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 500m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, min: {cpu: 400m}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 100m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool { return d.dependsOn(r.belowMinimum) },
	},
	{
		name: "requests above the maximum of pods",
		why:  "LimitRanger refuses them, too. Upstream holds only limits to it, and those of few containers may fit.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}, {name: b, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 400m}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 500m}}, {containerName: b, target: {cpu: 100m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool { return d.dependsOn(r.aboveMaximum) },
	},
	{
		name: "what is not recommended is not written",
		why:  "Where a LimitRange bounds pods, upstream writes 0, or a minimum, for a resource of a container that nothing is recommended for, and shares what the container has of it among the others.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 1Mi}, limits: {cpu: 100m, memory: 1Mi}}}, {name: b, resources: {requests: {memory: 1Gi}, limits: {memory: 1Gi}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {memory: 512Mi}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 100m}}, {containerName: b, target: {memory: 1Gi}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			if d.Index < 0 || !r.In.limited(corev1.LimitTypePod) {
				return false
			}
			return d.dependsOn(func(name corev1.ResourceName) bool { return r.inserts(d.Index, name) || r.countsWhatItLeaves(name) })
		},
	},
	{
		name: "only CPU and memory are written",
		why:  "Upstream writes what a recommendation holds of other resources, and where a LimitRange bounds pods, what a container requests of them already.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m, example.com/gpu: 1}, limits: {cpu: 1, example.com/gpu: 1}}}]}},
limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 1}}]}}], vpa: {status: {recommendation: {containerRecommendations: []}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return d.Index >= 0 && d.Resource != "" && !slices.Contains(bounded, d.Resource) && !d.Ours &&
				(d.Kind == podRequests || d.Kind == podUpdates && d.Item == string(d.Resource)+" request" || d.Kind == podUpdates && strings.Contains(d.Item, " capped to "))
		},
	},
	{
		name: "two recommendations for a container",
		why:  "The first counts. Upstream writes it, and says in vpaUpdates how the last was capped.",
		example: `object: {pod: {spec: {containers: [{name: a}]}}, vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {cpu: 200m}}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 100m}}, {containerName: a, target: {cpu: 300m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			if d.Kind != podUpdates || d.Index < 0 || !strings.Contains(d.Item, " capped to ") || r.VPA.Status.Recommendation == nil {
				return false
			}
			n := 0
			for i := range r.VPA.Status.Recommendation.ContainerRecommendations {
				if r.VPA.Status.Recommendation.ContainerRecommendations[i].ContainerName == r.In.Pod.Spec.Containers[d.Index].Name {
					n++
				}
			}
			return n > 1
		},
	},
	{
		name:    "recommendations below 0",
		why:     "There is nothing to be made of them, and API servers refuse such requests.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}}, vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: -100m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return r.concerns(d, func(name corev1.ResourceName) bool {
				return slices.ContainsFunc(r.In.Pod.Spec.Containers, func(c corev1.Container) bool {
					known := recommendedFor(r.VPA, c.Name)
					if known == nil || c.Name != r.In.Pod.Spec.Containers[d.Index].Name && !r.In.limited(corev1.LimitTypePod) && r.In.Pod.Spec.Resources == nil {
						return false
					}
					q := known.Target[name]
					return q.Sign() < 0
				})
			})
		},
	},
	{
		name: "recommendations above the ceilings",
		why:  "No node has that much, so they come of a fault, or of somebody who may write the status. vpaUpdates says that they are not applied.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {memory: 1Gi}}}]}},
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {memory: 9E}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return r.concerns(d, func(name corev1.ResourceName) bool {
				return slices.ContainsFunc(r.In.Pod.Spec.Containers, func(c corev1.Container) bool {
					known := recommendedFor(r.VPA, c.Name)
					if known == nil || c.Name != r.In.Pod.Spec.Containers[d.Index].Name && !r.In.limited(corev1.LimitTypePod) && r.In.Pod.Spec.Resources == nil &&
						(r.boostOf(d) == nil || !r.In.limited(corev1.LimitTypeContainer)) { // the pod would be refused for a container without a request
						return false
					}
					return aboveCeiling(name, known.Target[name])
				})
			})
		},
	},
	{
		name:    "limits of 0",
		why:     "API servers refuse a request above its limit, so a container with a limit of 0 is left at that, and gets no boost.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {limits: {cpu: 0}}}]}}, vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 250m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			if cpu, has := r.limit(d.Index)[corev1.ResourceCPU]; has && cpu.IsZero() && r.boostOf(d) != nil && (d.Kind == podBoost || d.Resource == corev1.ResourceCPU) {
				before, after := r.In.Pod.Spec.Containers[d.Index].Resources.Requests[corev1.ResourceCPU], r.Celvpa.Pod.Spec.Containers[d.Index].Resources.Requests[corev1.ResourceCPU]
				return after.Cmp(before) <= 0
			}
			limit, has := r.limit(d.Index)[d.Resource]
			return has && limit.IsZero() && (r.refused(d.Index, d.Resource) || d.Ours && d.Item == string(d.Resource)+" capped to container limit")
		},
	},
	{
		name: "requests from 0 to their limit",
		why:  "API servers refuse others. Upstream scales memory to -1 byte where its share is nothing, and CPU to 0 while the limit stays; it leaves limits where they are below a request that is raised.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {memory: 7}, limits: {memory: 512Mi}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {memory: 10Mi}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {memory: 7}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return r.concerns(d, func(name corev1.ResourceName) bool {
				return r.refused(d.Index, name) || r.scaledToNothing(d.Index, name)
			})
		},
	},
	{
		name: "whole milli-cores and bytes",
		why:  "Fractions of them are rounded up before anything is compared or scaled, not after.",
		example: `object: {pod: {spec: {containers: [{name: a}]}}, vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {memory: 1500m}}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {memory: 100Mi}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return r.concerns(d, func(name corev1.ResourceName) bool {
				return slices.ContainsFunc(r.amounts(name), func(q resource.Quantity) bool { return isUneven(name, q) })
			})
		},
	},
	{
		name: "amounts beyond 64 bits",
		why:  "What exceeds 9223372036854775807 milli-cores or bytes is held there, and vpaUpdates says so of every limit that is.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {limits: {memory: 3}}}]}}, vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {memory: "9223372036854775807"}}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {memory: 1Gi}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return r.concerns(d, func(name corev1.ResourceName) bool {
				return slices.ContainsFunc(r.amounts(name), func(q resource.Quantity) bool { return beyond(name, q) })
			})
		},
	},
	{
		name: "pods with resources of their own",
		why:  "API servers refuse pods whose containers together request more than the pod, or have a higher limit; upstream does not look at spec.resources. Nor is a request of 0 added to what such a pod's containers share.",
		example: `object: {pod: {spec: {resources: {requests: {cpu: 1}}, containers: [{name: a, resources: {requests: {cpu: 100m}}}]}},
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 2}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			if r.In.Pod.Spec.Resources == nil || d.Index < 0 {
				return false
			}
			return r.refusedWhole(d.Resource) || r.addsNothing(d.Index, d.Resource) || d.Kind == podUpdates && slices.ContainsFunc(bounded, r.refusedWhole) || r.Gates.CPUStartupBoost && (r.In.MaxBoost != "" || r.refusedBefore()) // the highest boost may end below what was shared out
		},
	},
}

var differencesOfBounds = []podDifference{
	{
		name: whatBoundsPods,
		why:  "It names the bound that keeps an amount from what is recommended, LimitRanges of type Pod among them. Upstream names each bound that the amount ran into on the way, and none of type Pod.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: 1}}]}}],
vpa: {status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 900m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return d.Kind == podUpdates && d.Index >= 0 && strings.Contains(d.Item, " capped to ") && r.namesAnotherBound(d)
		},
	},
	{
		name: "pods that would be refused",
		why:  "An eviction for a pod that cannot be created loses the replica. A resource that API servers would refuse the pod for stays as it is.",
		example: `object: {pod: {spec: {containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 400m}}}]}}, limitRanges: [{metadata: {name: x}, spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: 4}}]}}],
vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, controlledValues: RequestsOnly}]}}, status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 50m}}]}}}}`,
		explains: func(r *podResult, d podDiscrepancy) bool {
			return d.dependsOn(func(name corev1.ResourceName) bool { return r.refusedAsUpstreamHasIt(name) || r.fillsInRequests(name) }) ||
				d.Resource == corev1.ResourceCPU && r.boostOf(d) != nil && r.hasDefaultCPU() && r.In.limited(corev1.LimitTypeContainer)
		},
		last: true,
	},
}
