package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/annotations"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"k8s.io/utils/ptr"
)

// updateDifference is a way in which celvpa's updater does otherwise than upstream's on purpose. Its name is a heading of the table
// in docs/upstream-differences.md.
type updateDifference struct {
	name    string
	why     string
	example string // a case in YAML that differs in this and in nothing else
	// even changes a case, or the way in which upstream's cycle is led, such that upstream does with it what celvpa does with
	// the case as it was, but for other differences. It looks at the case, not at what celvpa says. It reports whether there was
	// something to change.
	even func(r *updateResult, in *updateInput, w *ways) bool
}

const targetAbove = "target: {cpu: 200m}, lowerBound: {cpu: 150m}"

// running is a pod with a container that is to grow, in YAML. status is what its status holds.
func running(name, status string) string {
	return `{metadata: {name: ` + name + `, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: true}]},
spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}, status: {` + status + `}}`
}

// resizing is a status with a condition. A time of 0 is none.
func resizing(kind, reason string, since time.Duration) string {
	out := "conditions: [{type: " + kind + `, status: "True"`
	if reason != "" {
		out += ", reason: " + reason
	}
	if since > 0 {
		out += ", lastTransitionTime: " + strconv.Quote(ago(since))
	}
	return out + "}]"
}

// runningCase is a case with pods of a ReplicaSet.
func runningCase(mode string, replicas int, pods ...string) string {
	return fmt.Sprintf(`object: {flags: {min-replicas: 1}, owners: [{kind: ReplicaSet, name: r, replicas: %d}], pods: [%s],
vpa: {spec: {updatePolicy: {updateMode: %s}}, status: {recommendation: {containerRecommendations: [{containerName: a, %s}]}}}}`,
		replicas, strings.Join(pods, ",\n"), mode, targetAbove)
}

var deliberateOfUpdater = []updateDifference{
	{
		name:    "pods of the same priority",
		why:     "They are updated in the order of their names. Upstream takes them as they come out of its cache, in any order.",
		example: runningCase("Recreate", 2, running("p1", ""), running("p0", "")),
		even: func(_ *updateResult, in *updateInput, _ *ways) bool {
			byName := func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) }
			if slices.IsSortedFunc(in.Pods, byName) {
				return false
			}
			slices.SortFunc(in.Pods, byName)
			return true
		},
	},
	{
		name:    "evictions among resizes",
		why:     "Mode InPlaceOrRecreate: pods have their turn by priority, whatever is to be done with them; upstream evicts after all resizes, when the budget may be spent.",
		example: runningCase("InPlaceOrRecreate", 2, running("p0", resizing("PodResizePending", "Infeasible", 0)), running("p1", "")),
		even: func(r *updateResult, _ *updateInput, w *ways) bool {
			w.evictInTurn = r.mode() == upstreamv1.UpdateModeInPlaceOrRecreate
			return w.evictInTurn
		},
	},
	{
		name: "resizes that would change the QoS class",
		why:  "They are not tried, as API servers refuse them; where the mode allows it the pod is evicted.",
		example: `object: {flags: {min-replicas: 1}, owners: [{kind: ReplicaSet, name: r, replicas: 1}], pods: [` + strings.Replace(running("p0", ""), "requests: {cpu: 100m}", "", 1) + `],
vpa: {spec: {updatePolicy: {updateMode: InPlaceOrRecreate}}, status: {recommendation: {containerRecommendations: [{containerName: a, ` + targetAbove + `}]}}}}`,
		even: func(r *updateResult, _ *updateInput, w *ways) bool {
			w.qosKnown = r.resizes()
			return w.qosKnown
		},
	},
	{
		name:    "owners of other kinds",
		why:     "The scale of a custom kind says how many pods there are to be. Upstream takes it for 0, so that all pods may be evicted at once.",
		example: strings.ReplaceAll(runningCase("Recreate", 3, running("p0", ""), running("p1", "")), "kind: ReplicaSet", "kind: Rollout"),
		even: func(_ *updateResult, in *updateInput, _ *ways) bool {
			other := func(kind string) bool { return !slices.Contains(wellKnownOwners, kind) }
			changed := false
			for _, pod := range in.Pods {
				if ref := controllerOf(pod); ref != nil && other(ref.Kind) {
					ref.Kind, changed = "ReplicaSet", true
				}
			}
			for i := range in.Owners {
				if other(in.Owners[i].Kind) {
					in.Owners[i].Kind = "ReplicaSet"
				}
			}
			return changed
		},
	},
	{
		name:    "owner references that do not say whether they control",
		why:     "They do not. Upstream panics.",
		example: strings.ReplaceAll(runningCase("Recreate", 2, running("p0", ""), running("p1", "")), "ownerReferences: [", "ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: c}, "),
		even: func(_ *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			for _, pod := range in.Pods {
				for i := range pod.OwnerReferences {
					if ref := &pod.OwnerReferences[i]; ref.Controller == nil {
						ref.Controller, changed = ptr.To(false), true
					}
				}
			}
			return changed
		},
	},
	{
		name:    "containers with mode Off in running pods",
		why:     "They do not count, also where a recommendation from before is still in the status.",
		example: strings.Replace(runningCase("Recreate", 2, running("p0", ""), running("p1", "")), "spec: {updatePolicy", `spec: {resourcePolicy: {containerPolicies: [{containerName: a, mode: "Off"}]}, updatePolicy`, 1),
		even: func(r *updateResult, in *updateInput, _ *ways) bool {
			return in.eachRecommendation(func(name string, _ map[string]any) (keep bool) { return !(&podResult{VPA: r.VPA}).isOff(name) })
		},
	},
	{
		name:    "resources of running pods that are not controlled",
		why:     "They do not count, also where a recommendation from before is still in the status.",
		example: strings.Replace(runningCase("Recreate", 2, running("p0", ""), running("p1", "")), "spec: {updatePolicy", `spec: {resourcePolicy: {containerPolicies: [{containerName: a, controlledResources: [memory]}]}, updatePolicy`, 1),
		even: func(r *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			in.eachRecommendation(func(_ string, recommendation map[string]any) bool {
				changed = (&podResult{VPA: r.VPA}).dropUncontrolled(recommendation) || changed
				return true
			})
			return changed
		},
	},
	{
		name:    "only CPU and memory of running pods count",
		why:     "Other resources are not changed. Upstream reckons with them where a recommendation holds some.",
		example: strings.Replace(runningCase("Recreate", 2, running("p0", ""), running("p1", "")), targetAbove, "target: {cpu: 100m, example.com/gpu: 1}", 1),
		even: func(_ *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			in.eachRecommendation(func(_ string, recommendation map[string]any) bool {
				for _, field := range []string{"target", "lowerBound", "upperBound"} {
					amounts, _ := recommendation[field].(map[string]any)
					for name := range amounts {
						if !slices.Contains(bounded, corev1.ResourceName(name)) {
							delete(amounts, name)
							changed = true
						}
					}
				}
				return true
			})
			return changed
		},
	},
	{
		name:    "pods that are boosted",
		why:     "They wait until their boost is over. For upstream one of them makes minReplicas void for its whole group, and where the VPA has no boost any more they are evicted for theirs.",
		example: "gates: {CPUStartupBoost: true}\n" + strings.Replace(runningCase("Recreate", 2, running("p0", ""), running("p1", "")), "name: p0", `name: p0, annotations: {vpaCpuStartupBoost/a: "{}"}`, 1),
		even: func(r *updateResult, in *updateInput, w *ways) bool {
			changed := false
			for _, pod := range in.Pods {
				for key := range pod.Annotations {
					if strings.HasPrefix(key, annotationBoost) {
						delete(pod.Annotations, key)
						changed = true
						if r.Gates.CPUStartupBoost {
							w.leave[pod.Name] = true
						}
					}
				}
			}
			return changed
		},
	},
	{
		name:    "VPAs without a recommendation",
		why:     "Their pods are left alone. Upstream panics on old ones with --pod-update-threshold=0.",
		example: `object: {flags: {pod-update-threshold: 0}, owners: [{kind: ReplicaSet, name: r, replicas: 1}], pods: [` + running("p0", `startTime: "2026-01-01T00:00:00Z"`) + `], vpa: {spec: {}}}`,
		even: func(r *updateResult, in *updateInput, _ *ways) bool {
			var v map[string]any
			if r.VPA.Status.Recommendation != nil || json.Unmarshal(in.VPA, &v) != nil || v == nil {
				return false
			}
			v["status"] = object("recommendation", object("containerRecommendations", list()))
			in.VPA = mustJSON(v)
			return true
		},
	},
	{
		name:    "updates that change nothing",
		why:     "A pod is left alone where a new one would be given what it has, or where nothing is recommended for what admission saw in it.",
		example: strings.Replace(runningCase("Recreate", 2, running("p0", ""), running("p1", "")), targetAbove, "target: {cpu: 100m}, lowerBound: {cpu: 150m}", 1),
		even: func(r *updateResult, in *updateInput, w *ways) bool {
			return w.leaveOut(in, func(pod *corev1.Pod) bool { return len(r.wanted(pod)) == 0 || r.isStrange(pod) })
		},
	},
	{
		name:    "a node that has not answered",
		why:     "A pod whose resources are not those that its node granted is being resized, also where no condition says so yet.",
		example: runningCase("InPlaceOrRecreate", 2, running("p0", "containerStatuses: [{name: a, resources: {requests: {cpu: 50m}}}]"), running("p1", resizing("PodResizeInProgress", "", 0))),
		even: func(r *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			for _, pod := range in.Pods {
				if !isResizing(pod) && isUnanswered(pod) {
					pod.Status.Conditions = append([]corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}}, pod.Status.Conditions...)
					changed = true
				}
			}
			return changed
		},
	},
	{
		name:    "conditions that are not True",
		why:     "They say nothing. Upstream goes by the first of the two, and takes the reason of one that is not True.",
		example: strings.Replace(runningCase("InPlaceOrRecreate", 2, running("p0", resizing("PodResizeInProgress", "", 0)), running("p1", resizing("PodResizeInProgress", "", 0))), "conditions: [", `conditions: [{type: PodResizePending, status: "False", reason: Deferred}, `, 1),
		even: func(_ *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			for _, pod := range in.Pods {
				before := len(pod.Status.Conditions)
				pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return isOfResize(c) && c.Status != corev1.ConditionTrue })
				changed = changed || len(pod.Status.Conditions) < before
			}
			return changed
		},
	},
	{
		name:    "resizes of a pod that had the name before",
		why:     "How long a resize takes is counted for each pod. Upstream counts by name and never forgets, so a new pod of a StatefulSet may be evicted for a resize of the old one.",
		example: strings.Replace(runningCase("InPlaceOrRecreate", 2, running("p0", resizing("PodResizePending", "Deferred", time.Minute)), running("p1", resizing("PodResizeInProgress", "", 0))), "object: {", "object: {noticed: {p0: {age: 3h, uid: uid-of-another}}, ", 1),
		even: func(_ *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			for name, seen := range in.Noticed {
				if pod := in.pod(name); pod != nil && seen.UID != "" && seen.UID != pod.UID {
					delete(in.Noticed, name)
					changed = true
				}
			}
			return changed
		},
	},
	{
		name:    "since when a resize is under way",
		why:     "The node says so in its condition. Upstream counts from when it noticed it, so a restart of the updater begins anew.",
		example: runningCase("InPlaceOrRecreate", 2, running("p0", resizing("PodResizePending", "Deferred", time.Hour)), running("p1", resizing("PodResizeInProgress", "", 0))),
		even: func(_ *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			for _, pod := range in.Pods {
				var since time.Time
				for _, c := range pod.Status.Conditions {
					if isOfResize(c) && c.Status == corev1.ConditionTrue && (since.IsZero() || c.Type == corev1.PodResizePending) {
						since = c.LastTransitionTime.Time
					}
				}
				if since.IsZero() {
					continue
				}
				if age := updateNow.Sub(since); age > in.Noticed[pod.Name].Age.Duration {
					if in.Noticed == nil {
						in.Noticed = map[string]noticedInput{}
					}
					in.Noticed[pod.Name] = noticedInput{Age: metav1.Duration{Duration: age}}
					changed = true
				}
			}
			return changed
		},
	},
	{
		name: "resizes that cannot end in mode InPlace",
		why: "Another one takes their place once it may be carried out: one for less of what a node has deferred, and any other in place of one that has failed for an hour. " +
			"Upstream sends every resize over every other one, where the pod itself is to be updated.",
		example: "gates: {InPlace: true}\n" + runningCase("InPlace", 1, strings.Replace(running("p0", resizing("PodResizePending", "Deferred", 0)), "cpu: 100m", "cpu: 300m", 1)),
		even: func(r *updateResult, in *updateInput, w *ways) bool {
			changed := false
			for _, pod := range r.In.Pods {
				ends, takenBack := r.mayBeReplaced(pod)
				if other := in.pod(pod.Name); ends && other != nil {
					other.Status.Conditions = slices.DeleteFunc(other.Status.Conditions, isOfResize)
					if takenBack {
						other.Status.StartTime = &metav1.Time{Time: updateNow.Add(-time.Minute)}
					}
					w.anyway[pod.Name], changed = takenBack, true
				}
			}
			return changed
		},
	},
	{
		name:    "mode InPlace waits",
		why:     "While a resize is under way, the pod has not started or the budget is spent nothing is sent (AEP-8818). Upstream sends it all the same.",
		example: "gates: {InPlace: true}\n" + runningCase("InPlace", 2, running("p0", resizing("PodResizeInProgress", "Error", 0)), running("p1", resizing("PodResizePending", "Deferred", 0))),
		even: func(r *updateResult, _ *updateInput, w *ways) bool {
			w.deferredWaits = r.mode() == upstreamv1.UpdateModeInPlace
			return w.deferredWaits
		},
	},
	{
		name:    "infeasible resizes in mode InPlace",
		why:     "What the pod asks for is remembered and nothing is sent until less is wanted (AEP-8818). Upstream remembers what is recommended, and sends it.",
		example: "gates: {InPlace: true}\n" + runningCase("InPlace", 2, running("p0", resizing("PodResizePending", "Infeasible", 0))),
		even: func(r *updateResult, in *updateInput, w *ways) bool {
			if r.mode() != upstreamv1.UpdateModeInPlace {
				return false
			}
			changed := false
			for _, pod := range in.Pods {
				i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible
				})
				if i < 0 {
					continue
				}
				w.infeasibleWaits, changed = true, true
				if _, known := r.In.Infeasible[pod.Name]; known { // and less is wanted now, or it is skipped
					pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, isOfResize)
				}
			}
			return changed
		},
	},
	{
		name: "what an infeasible resize is compared with",
		why:  "All that the pod would request now. Upstream compares what is recommended, once as it stands in the status and once capped, and only for containers that still have a recommendation.",
		example: "gates: {InPlace: true}\n" + strings.NewReplacer("object: {", "object: {infeasible: {p0: {a: {cpu: 170m}}}, ", "spec: {updatePolicy", "spec: {resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {cpu: 160m}}]}, updatePolicy").
			Replace(runningCase("InPlace", 1, running("p0", ""))),
		even: func(r *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			for name, tried := range in.Infeasible {
				pod := in.pod(name)
				if pod == nil {
					continue
				}
				changed = true
				if r.wantsLess(pod, tried) {
					delete(in.Infeasible, name)
					continue
				}
				in.Infeasible[name] = map[string]corev1.ResourceList{} // of which nothing is lower
			}
			return changed && r.mode() == upstreamv1.UpdateModeInPlace
		},
	},
	{
		name:    "refusals that pass",
		why:     "Conflicts, servers that do not answer, quotas and pods that are gone say nothing about whether a pod can be resized, so it is not evicted for them.",
		example: strings.Replace(runningCase("InPlaceOrRecreate", 1, running("p0", "")), "object: {", "object: {refusals: {p0: Conflict}, ", 1),
		even: func(r *updateResult, in *updateInput, w *ways) bool {
			w.refusalsWait = r.mode() == upstreamv1.UpdateModeInPlaceOrRecreate && len(in.Refusals) > 0
			return w.refusalsWait
		},
	},
	{
		name:    "without the admission controller",
		why:     "Resizes need no admission controller, so only evictions stop. Upstream does nothing at all.",
		example: strings.Replace(runningCase("InPlaceOrRecreate", 1, running("p0", "")), "object: {", "object: {noAdmission: true, ", 1),
		even: func(_ *updateResult, in *updateInput, w *ways) bool {
			w.resizesGoOn = in.NoAdmission
			return in.NoAdmission
		},
	},
	{
		name: "restarts that a resize does not need",
		why:  "--in-place-skip-disruption-budget is about resizes that restart nothing. For upstream a container restarts where any resource of any container has RestartContainer, also one that stays as it is.",
		example: strings.NewReplacer("flags: {", "flags: {in-place-skip-disruption-budget: true, ", "{name: a,", "{name: a, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}],").
			Replace(runningCase("InPlaceOrRecreate", 4, running("p0", ""))),
		even: func(r *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			for _, pod := range in.Pods {
				wanted := r.wanted(pod)
				for i := range pod.Spec.Containers {
					c := &pod.Spec.Containers[i]
					for j := range c.ResizePolicy {
						if p := &c.ResizePolicy[j]; p.RestartPolicy == corev1.RestartContainer && !slices.Contains(wanted[c.Name], p.ResourceName) {
							p.RestartPolicy, changed = corev1.NotRequired, true
						}
					}
				}
			}
			return changed && in.Flags.SkipBudget
		},
	},
}

func (r *updateResult) mode() upstreamv1.UpdateMode { return upstreamapi.GetUpdateMode(r.VPA) }

func (r *updateResult) resizes() bool {
	return r.mode() == upstreamv1.UpdateModeInPlaceOrRecreate || r.mode() == upstreamv1.UpdateModeInPlace
}

// leaveOut has upstream not look at some pods.
func (w *ways) leaveOut(in *updateInput, which func(*corev1.Pod) bool) bool {
	some := false
	for _, pod := range in.Pods {
		if which(pod) {
			w.leave[pod.Name], some = true, true
		}
	}
	return some
}

// eachRecommendation hands out the recommendations for containers, to be changed or taken away; it reports whether one was.
func (in *updateInput) eachRecommendation(keep func(name string, recommendation map[string]any) bool) (dropped bool) {
	var v map[string]any
	if json.Unmarshal(in.VPA, &v) != nil {
		return false
	}
	list, _ := get(v, "status.recommendation.containerRecommendations").([]any)
	if len(list) == 0 {
		return false
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(one any) bool {
		recommendation, _ := one.(map[string]any)
		name, _ := recommendation["containerName"].(string)
		return !keep(name, recommendation)
	})
	put(v, placeOf("status.recommendation.containerRecommendations"), kept)
	in.VPA = mustJSON(v)
	return len(kept) < len(list)
}

// isStrange reports whether nothing is recommended for any container that admission saw in a pod.
func (r *updateResult) isStrange(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return recommendedFor(r.VPA, c.Name) != nil && !(&podResult{VPA: r.VPA}).isOff(c.Name) && isObserved(pod, c.Name)
	})
}

// isObserved reports whether admission saw a container in a pod, as far as the annotation can be read.
func isObserved(pod *corev1.Pod, container string) bool {
	text, ok := pod.Annotations[annotations.VpaObservedContainersLabel]
	names, err := annotations.ParseVpaObservedContainersValue(text)
	return !ok || err != nil || slices.Contains(names, container)
}

// wantsLess reports whether a pod would request less of something than was tried, after an update by upstream's reckoning.
func (r *updateResult) wantsLess(pod *corev1.Pod, tried map[string]corev1.ResourceList) bool {
	after := r.given(pod)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		requests := merged(c.Resources.Requests, nil)
		if !(&podResult{VPA: r.VPA}).isOff(c.Name) {
			requests = merged(requests, after[i].Requests)
		}
		for _, name := range bounded {
			now, ok := requests[name]
			before, known := tried[c.Name][name]
			if ok && known && now.Cmp(before) < 0 {
				return true
			}
		}
	}
	return false
}

// given are what a new pod, by upstream's reckoning, would be given, by container.
func (r *updateResult) given(pod *corev1.Pod) []upstreamapi.ContainerResources {
	limits := limitrange.NewNoopLimitsCalculator()
	all, _, err := recommendation.NewProvider(limits, upstreamapi.NewCappingRecommendationProcessor(limits)).GetContainersResourcesForPod(pod, r.VPA)
	if err != nil {
		return make([]upstreamapi.ContainerResources, len(pod.Spec.Containers))
	}
	return all
}

// wanted are the resources of containers that a new pod, by upstream's reckoning, would be given in other amounts.
func (r *updateResult) wanted(pod *corev1.Pod) map[string][]corev1.ResourceName {
	out := map[string][]corev1.ResourceName{}
	for i, wanted := range r.given(pod) {
		c := &pod.Spec.Containers[i]
		if (&podResult{VPA: r.VPA}).isOff(c.Name) {
			continue
		}
		now := grantedTo(pod, c)
		for _, lists := range [][2]corev1.ResourceList{{now.Requests, wanted.Requests}, {now.Limits, wanted.Limits}} {
			for name, q := range lists[1] {
				if before, ok := lists[0][name]; (!ok || before.Cmp(q) != 0) && slices.Contains(bounded, name) {
					out[c.Name] = append(out[c.Name], name)
				}
			}
		}
	}
	return out
}

// grantedTo is what a container has: what its node granted, or what it asks for.
func grantedTo(pod *corev1.Pod, c *corev1.Container) corev1.ResourceRequirements {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == c.Name && s.Resources != nil {
			return *s.Resources
		}
	}
	return c.Resources
}

func isOfResize(c corev1.PodCondition) bool {
	return c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress
}

// isResizing reports whether a condition says that a pod is being resized.
func isResizing(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return isOfResize(c) && c.Status == corev1.ConditionTrue })
}

// isUnanswered reports whether a pod asks for other amounts of CPU or memory than those that its node granted.
func isUnanswered(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		granted := grantedTo(pod, c)
		for _, lists := range [][2]corev1.ResourceList{{c.Resources.Requests, granted.Requests}, {c.Resources.Limits, granted.Limits}} {
			for _, name := range bounded {
				asked, isAsked := lists[0][name]
				has, isGranted := lists[1][name]
				if isAsked && isGranted && asked.Cmp(has) != 0 {
					return true
				}
			}
		}
	}
	return false
}
