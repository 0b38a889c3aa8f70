package facts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Resize is what is known of a resize under way.
type Resize struct {
	Status  ResizeStatus
	Age     time.Duration // since it was first seen, or since the node told of it, whichever is longer
	Message string        // what the node says about it

	Replaced    int           // how many resizes were sent over others since the pod was last without one
	ReplacedAge time.Duration // since the last of them
}

// ResizeStatus is how far a resize is (KEP-1287, UPSTREAM.md §5.6).
type ResizeStatus string

// The states of a resize.
const (
	NoResize         ResizeStatus = ""
	ResizeSent       ResizeStatus = "Sent" // the pod asks for other resources than the node granted, of which the node has not told anything yet
	ResizeInProgress ResizeStatus = "InProgress"
	ResizeDeferred   ResizeStatus = "Deferred"
	ResizeInfeasible ResizeStatus = "Infeasible"
	ResizeError      ResizeStatus = "Error"
	ResizeUnknown    ResizeStatus = "Unknown"
)

// ResizeOf reads how far a pod's resize is, what the node says about it, and since when; zero where it does not. A pending resize says
// more than one in progress. What the node said of resources that the pod does not ask for any more does not count.
func ResizeOf(pod *corev1.Pod) (status ResizeStatus, since time.Time, message string) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue || c.ObservedGeneration != 0 && c.ObservedGeneration < pod.Generation && awaited(pod) {
			continue
		}
		switch c.Type {
		case corev1.PodResizePending:
			switch c.Reason {
			case corev1.PodReasonDeferred:
				return ResizeDeferred, c.LastTransitionTime.Time, c.Message
			case corev1.PodReasonInfeasible:
				return ResizeInfeasible, c.LastTransitionTime.Time, c.Message
			}
			return ResizeUnknown, c.LastTransitionTime.Time, c.Message
		case corev1.PodResizeInProgress:
			since, message = c.LastTransitionTime.Time, c.Message
			switch {
			case c.Reason == corev1.PodReasonError:
				status = ResizeError
			case c.Reason == "" && c.Message == "":
				status = ResizeInProgress
			default:
				status = ResizeUnknown
			}
		}
	}
	if status == NoResize && awaited(pod) {
		status = ResizeSent
	}
	return status, since, message
}

// awaited reports whether a pod asks for other CPU or memory than its node granted. Nodes that cannot resize grant nothing.
func awaited(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.Resources == nil {
			continue
		}
		for j := range pod.Spec.Containers {
			if c := &pod.Spec.Containers[j]; c.Name == s.Name && differ(&c.Resources, s.Resources) {
				return true
			}
		}
	}
	whole := PodLevel(pod)
	return whole != nil && pod.Status.Resources != nil && differ(whole, pod.Status.Resources)
}

// The least CPU that nodes can tell: less is granted as so much (KEP-1287).
const (
	leastCPURequest = 2  // milli-cores
	leastCPULimit   = 10 // milli-cores
)

// differ compares what is asked for with what is granted. Of what is granted only that counts which is told.
func differ(asked, granted *corev1.ResourceRequirements) bool {
	return listsDiffer(asked.Requests, granted.Requests, leastCPURequest) || listsDiffer(asked.Limits, granted.Limits, leastCPULimit)
}

func listsDiffer(asked, granted corev1.ResourceList, leastCPU int64) bool {
	for _, name := range ScaledResources {
		a, wanted := asked[name]
		g, told := granted[name]
		if !wanted || !told || a.Cmp(g) == 0 {
			continue
		}
		if name == corev1.ResourceCPU && max(MilliCPU(a), leastCPU) == max(MilliCPU(g), leastCPU) {
			continue
		}
		return true
	}
	return false
}
