package facts

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/celvpa/celvpa/engine/lang"
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

// resizing is a pending resize beside the one to send now.
type resizing struct {
	*Resize
	now *wanted // nil without a pending resize
}

// wanted compares the pending resize (the pod's spec) with what would be sent now.
type wanted struct {
	requested, wanted                      corev1.ResourceList
	differs, raisesMemoryLimit, changesCPU bool
}

var resizeSchema = lang.Bind("Resize",
	lang.TextFrom("status", "empty, Sent (the node has not reported it yet), InProgress, Deferred, Infeasible, Error or Unknown",
		func(r resizing) ResizeStatus { return r.Status }),
	lang.IntFrom("age", lang.IntOf(Duration), "since the updater first saw the resize, or since the node reported it, whichever is longer",
		func(r resizing) time.Duration { return max(r.Age, 0) }),
	lang.TextFrom("message", "what the node says about it", func(r resizing) string { return r.Message }),
	lang.TextFrom("lacks", "what the node lacks for a deferred resize, as it says: cpu or memory; empty if it does not say, or lacks something else",
		func(r resizing) corev1.ResourceName { return lacking(r.Message) }),
	lang.BoolFrom("belowUsage", "the node fails to carry it out because a memory limit would be below what is in use",
		func(r resizing) bool { return r.Status == ResizeError && refusesBelowUsage(r.Message) }),
	lang.RecordFrom("requested", resourcesSchema.Schema, "what the pod as a whole requests with it, from the pod's spec; unset without one",
		func(r resizing) *lang.Record {
			if r.now == nil {
				return nil
			}
			return Resources(r.now.requested)
		}),
	lang.RecordFrom("wanted", resourcesSchema.Schema, "what it would request with a resize sent now; unset without one",
		func(r resizing) *lang.Record {
			if r.now == nil {
				return nil
			}
			return Resources(r.now.wanted)
		}),
	lang.BoolIf("differs", "a resize sent now would ask for different CPU or memory",
		func(r resizing) (bool, bool) { return r.now != nil && r.now.differs, r.now != nil }),
	lang.BoolIf("raisesMemoryLimit", "such a resize would raise a memory limit",
		func(r resizing) (bool, bool) { return r.now != nil && r.now.raisesMemoryLimit, r.now != nil }),
	lang.BoolIf("changesCPU", "such a resize would ask for other CPU than the node has given",
		func(r resizing) (bool, bool) { return r.now != nil && r.now.changesCPU, r.now != nil }),
	lang.IntFrom("replaced", lang.Int, "how many resizes replaced another since the pod last had none under way",
		func(r resizing) int { return r.Replaced }),
	lang.IntFrom("replacedAge", lang.IntOf(Duration), "since the cycle of the last one", func(r resizing) time.Duration { return max(r.ReplacedAge, 0) }))

func (s *PodState) resizeNow() *lang.Record {
	if s.Resize == (Resize{}) {
		return notResizing
	}
	r := resizing{Resize: &s.Resize}
	if s.Resize.Status != NoResize {
		r.now = wantedNow(s.Pod, s.Change)
	}
	return resizeSchema.Of(r)
}

// notResizing is the resize of most pods.
var notResizing = resizeSchema.Of(resizing{Resize: &Resize{}})

// wantedNow reads only the pod, so it survives restarts of the updater.
func wantedNow(pod *corev1.Pod, change PodChange) *wanted {
	after := PodAfter(pod, change)
	whole := resourcehelper.PodResourcesOptions{}
	out := &wanted{requested: resourcehelper.PodRequests(pod, whole), wanted: resourcehelper.PodRequests(after, whole)}
	given := func(requests, limits corev1.ResourceList, now *corev1.ResourceRequirements) {
		out.changesCPU = out.changesCPU || altersOne(requests, QuantitiesOf(now.Requests), corev1.ResourceCPU) || altersOne(limits, QuantitiesOf(now.Limits), corev1.ResourceCPU)
	}
	compare := func(asked, now *corev1.ResourceRequirements) {
		out.differs = out.differs || alters(asked.Requests, QuantitiesOf(now.Requests)) || alters(asked.Limits, QuantitiesOf(now.Limits))
		before, limited := asked.Limits[corev1.ResourceMemory]
		out.raisesMemoryLimit = out.raisesMemoryLimit || limited && before.Cmp(now.Limits[corev1.ResourceMemory]) < 0
	}
	for i := range pod.Spec.Containers {
		compare(&pod.Spec.Containers[i].Resources, &after.Spec.Containers[i].Resources)
		requests, limits := CurrentResources(pod, i)
		given(requests, limits, &after.Spec.Containers[i].Resources)
	}
	if level := PodLevel(pod); level != nil {
		compare(level, after.Spec.Resources)
		requests, limits, _ := podResourcesOf(pod)
		given(requests, limits, after.Spec.Resources)
	}
	return out
}
