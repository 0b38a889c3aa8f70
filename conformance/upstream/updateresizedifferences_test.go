package upstream

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
)

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
