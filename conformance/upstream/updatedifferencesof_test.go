package upstream

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/annotations"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	upstreamapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

func (r *updateResult) mode() upstreamv1.UpdateMode { return upstreamapi.GetUpdateMode(r.VPA) }

func (r *updateResult) resizes() bool {
	return r.mode() == upstreamv1.UpdateModeInPlaceOrRecreate || r.mode() == upstreamv1.UpdateModeInPlace
}

// leaveOut hides some pods from upstream.
func (w *ways) leaveOut(in *updateInput, which func(*corev1.Pod) bool) bool {
	some := false
	for _, pod := range in.Pods {
		if which(pod) {
			w.leave[pod.Name], some = true, true
		}
	}
	return some
}

// eachRecommendation passes each container recommendation to a function that may change or remove
// it; it reports whether one was.
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

// isStrange reports whether there is no recommendation for any container of a pod that admission
// saw.
func (r *updateResult) isStrange(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return recommendedFor(r.VPA, c.Name) != nil && !(&podResult{VPA: r.VPA}).isOff(c.Name) && isObserved(pod, c.Name)
	})
}

// isObserved reports whether admission saw a container of a pod, according to the readable part of
// the annotation.
func isObserved(pod *corev1.Pod, container string) bool {
	text, ok := pod.Annotations[annotations.VpaObservedContainersLabel]
	names, err := annotations.ParseVpaObservedContainersValue(text)
	return !ok || err != nil || slices.Contains(names, container)
}

// wantsLess reports whether a pod would request less of something than was tried, in upstream's
// calculation.
func (r *updateResult) wantsLess(pod *corev1.Pod, tried map[string]corev1.ResourceList) bool {
	after := r.given(pod)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		requests := r.updated(c, c.Resources.Requests, after[i].Requests)
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

// updated are the amounts that a container has after an update: what its policy leaves alone stays.
func (r *updateResult) updated(c *corev1.Container, before, given corev1.ResourceList) corev1.ResourceList {
	out, by := merged(before, nil), &podResult{VPA: r.VPA}
	for name, q := range given {
		if !by.isOff(c.Name) && by.controls(c.Name, name) {
			out[name] = q
		}
	}
	return out
}

// given are the resources of a new pod by container, in upstream's calculation.
func (r *updateResult) given(pod *corev1.Pod) []upstreamapi.ContainerResources {
	limits := limitrange.NewNoopLimitsCalculator()
	all, _, err := recommendation.NewProvider(limits, upstreamapi.NewCappingRecommendationProcessor(limits)).GetContainersResourcesForPod(pod, r.VPA)
	if err != nil {
		return make([]upstreamapi.ContainerResources, len(pod.Spec.Containers))
	}
	return all
}

// wanted are the controlled resources of containers that a new pod would get in other quantities, in
// upstream's calculation.
func (r *updateResult) wanted(pod *corev1.Pod) map[string][]corev1.ResourceName {
	out := map[string][]corev1.ResourceName{}
	for i, wanted := range r.given(pod) {
		c := &pod.Spec.Containers[i]
		by := &podResult{VPA: r.VPA}
		if by.isOff(c.Name) {
			continue
		}
		now := grantedTo(pod, c)
		for _, lists := range [][2]corev1.ResourceList{{now.Requests, wanted.Requests}, {now.Limits, wanted.Limits}} {
			for name, q := range lists[1] {
				if before, ok := lists[0][name]; (!ok || before.Cmp(q) != 0) && slices.Contains(bounded, name) && by.controls(c.Name, name) {
					out[c.Name] = append(out[c.Name], name)
				}
			}
		}
	}
	return out
}

// dropKillsWithoutRise forgets OOM kills of containers that would request less memory, in upstream's
// calculation.
func (r *updateResult) dropKillsWithoutRise(pod *corev1.Pod) (changed bool) {
	given := r.given(pod)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		before, ok := grantedTo(pod, c).Requests[corev1.ResourceMemory]
		after, known := given[i].Requests[corev1.ResourceMemory]
		if !ok || !known || after.Cmp(before) >= 0 || !(&podResult{VPA: r.VPA}).controls(c.Name, corev1.ResourceMemory) {
			continue
		}
		for j := range pod.Status.ContainerStatuses {
			if s := &pod.Status.ContainerStatuses[j]; s.Name == c.Name && s.LastTerminationState.Terminated != nil {
				s.LastTerminationState, changed = corev1.ContainerState{}, true
			}
		}
	}
	return changed
}

// starves reports whether a boosted pod is evicted in spite of its boost: it is not ready, and a container that ran out of memory soon
// after its start would request more.
func (r *updateResult) starves(pod *corev1.Pod) bool {
	if r.mode() == upstreamv1.UpdateModeInPlace || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return false
	}
	given := r.given(pod)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		before, ok := grantedTo(pod, c).Requests[corev1.ResourceMemory]
		after, known := given[i].Requests[corev1.ResourceMemory]
		by := &podResult{VPA: r.VPA}
		if !ok || !known || after.Cmp(before) <= 0 || by.isOff(c.Name) || !by.controls(c.Name, corev1.ResourceMemory) || !isObserved(pod, c.Name) {
			continue
		}
		for j := range pod.Status.ContainerStatuses {
			s := &pod.Status.ContainerStatuses[j]
			ended := s.LastTerminationState.Terminated
			if s.Name == c.Name && ended != nil && ended.Reason == "OOMKilled" && max(updateNow.Sub(ended.FinishedAt.Time), ended.FinishedAt.Sub(ended.StartedAt.Time)) < r.In.Flags.evictAfterOOM() {
				return true
			}
		}
	}
	return false
}

// grantedTo is what a container's node granted, or else what the container requests.
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

// isResizing reports whether a condition says that a resize is pending or in progress.
func isResizing(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return isOfResize(c) && c.Status == corev1.ConditionTrue })
}

// isUnanswered reports whether a pod's CPU or memory differs from what its node granted.
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
