package facts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/celvpa/celvpa/engine/lang"
)

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
