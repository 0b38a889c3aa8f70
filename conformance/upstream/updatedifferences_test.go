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
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/utils/ptr"
)

// updateDifference is a deliberate difference between celvpa's updater and upstream's. Its name is
// a heading of the table in docs/upstream-differences.md.
type updateDifference struct {
	name    string
	why     string
	example string // a case in YAML that differs in this and in nothing else
	// even changes the case, or the way upstream's cycle runs, so that upstream does what celvpa
	// does with the original, apart from other differences. It examines the case, not celvpa's
	// answer, and reports whether there was anything to change.
	even func(r *updateResult, in *updateInput, w *ways) bool
}

const targetAbove = "target: {cpu: 200m}, lowerBound: {cpu: 150m}"

// running is a pod with a container that should grow, in YAML, with the given status.
func running(name, status string) string {
	return `{metadata: {name: ` + name + `, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: true}]},
spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}]}, status: {` + status + `}}`
}

// resizing is a status with a condition. Time 0 = no time.
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

// deliberateOfUpdater are in the order of docs/upstream-differences.md.
var deliberateOfUpdater = slices.Concat(differencesOfPods, differencesOfResizes)

var differencesOfPods = []updateDifference{
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
		why:     "They wait until their boost is over, unless they lack the memory to become ready. For upstream one of them makes minReplicas void for its whole group, and where the VPA has no boost any more they are evicted for theirs.",
		example: "gates: {CPUStartupBoost: true}\n" + strings.Replace(runningCase("Recreate", 2, running("p0", ""), running("p1", "")), "name: p0", `name: p0, annotations: {vpaCpuStartupBoost/a: "{}"}`, 1),
		even: func(r *updateResult, in *updateInput, w *ways) bool {
			changed := false
			for _, pod := range in.Pods {
				for key := range pod.Annotations {
					if strings.HasPrefix(key, annotationBoost) {
						delete(pod.Annotations, key)
						changed = true
						if r.Gates.CPUStartupBoost {
							if r.starves(pod) {
								w.evicted[pod.Name] = true
							} else {
								w.leave[pod.Name] = true
							}
						}
					}
				}
			}
			return changed
		},
	},
	{
		name: "less memory after an OOM kill",
		why:  "It is no reason for an update: it would not help, and the recommendation may be from before the kill. Upstream evicts or resizes the pod for it.",
		example: strings.ReplaceAll(strings.Replace(runningCase("Recreate", 2, running("p1", ""), running("p0", `containerStatuses: [{name: a, lastState: {terminated: {reason: OOMKilled, startedAt: "`+ago(3*time.Minute)+`", finishedAt: "`+ago(2*time.Minute)+`"}}}]`)),
			targetAbove, "target: {memory: 50M}, lowerBound: {memory: 10M}, upperBound: {memory: 1G}", 1), "requests: {cpu: 100m}", "requests: {memory: 100M}"),
		even: func(r *updateResult, in *updateInput, _ *ways) bool {
			changed := false
			for _, pod := range in.Pods {
				changed = r.dropKillsWithoutRise(pod) || changed
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
}

var differencesOfResizes = []updateDifference{
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
						for i := range other.Status.ContainerStatuses { // a kill would ask for a difference from the target
							other.Status.ContainerStatuses[i].LastTerminationState = corev1.ContainerState{}
						}
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
