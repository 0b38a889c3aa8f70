package facts

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Resize is the state of a pending resize.
type Resize struct {
	Status  ResizeStatus
	Age     time.Duration // since first seen or first reported by the node, whichever is longer
	Message string        // from the node

	Replaced    int           // resizes that replaced others since the pod last had none pending
	ReplacedAge time.Duration // since the last replacement
}

// ResizeStatus is the progress of a resize (KEP-1287, UPSTREAM.md §5.6).
type ResizeStatus string

// States of a resize.
const (
	NoResize         ResizeStatus = ""
	ResizeSent       ResizeStatus = "Sent" // spec differs from what the node granted; no report from the node yet
	ResizeInProgress ResizeStatus = "InProgress"
	ResizeDeferred   ResizeStatus = "Deferred"
	ResizeInfeasible ResizeStatus = "Infeasible"
	ResizeError      ResizeStatus = "Error"
	ResizeUnknown    ResizeStatus = "Unknown"
)

// ResizeOf returns a resize's status, start and node message; zero where unknown. A pending resize
// wins over one in progress. Reports about resources that the spec no longer asks for do not count.
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

// What kubelets say about a resize. conformance/lab tests that they still do.
const (
	KubeletLacks      = "Node didn't have enough resource: " // and the first resource that they lack, for a deferred resize
	KubeletBelowUsage = "cannot decrease memory limits: "    // of a container or pod, for one that fails
)

// lacking is the resource that a node says it lacks for a resize; empty if it does not say so.
func lacking(message string) corev1.ResourceName {
	_, rest, _ := strings.Cut(message, KubeletLacks)
	for _, name := range ScaledResources {
		if strings.HasPrefix(rest, string(name)+",") {
			return name
		}
	}
	return ""
}

func refusesBelowUsage(message string) bool { return strings.Contains(message, KubeletBelowUsage) }

// awaited compares the spec with what the node granted. Nodes that cannot resize grant nothing.
func awaited(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.Resources == nil {
			continue
		}
		for j := range pod.Spec.Containers {
			c := &pod.Spec.Containers[j]
			shared := s.Resources == &c.Resources // as in a slim pod that got what it asked for
			if !shared && c.Name == s.Name && differ(&c.Resources, s.Resources) {
				return true
			}
		}
	}
	whole := PodLevel(pod)
	return whole != nil && pod.Status.Resources != nil && differ(whole, pod.Status.Resources)
}

// The least CPU that nodes report: smaller values are rounded up to it (KEP-1287).
const (
	leastCPURequest = 2  // milli-cores
	leastCPULimit   = 10 // milli-cores
)

// differ ignores resources that the node does not report.
func differ(asked, granted *corev1.ResourceRequirements) bool {
	return listsDiffer(asked.Requests, granted.Requests, leastCPURequest) || listsDiffer(asked.Limits, granted.Limits, leastCPULimit)
}

func listsDiffer(asked, granted corev1.ResourceList, leastCPU int64) bool {
	for _, name := range ScaledResources {
		a, wanted := asked[name]
		g, ok := granted[name]
		if !wanted || !ok || a.Cmp(g) == 0 {
			continue
		}
		if name == corev1.ResourceCPU && max(MilliCPU(a), leastCPU) == max(MilliCPU(g), leastCPU) {
			continue
		}
		return true
	}
	return false
}
