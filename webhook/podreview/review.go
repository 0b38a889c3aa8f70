// Package podreview decides about a new pod: whether it is refused, and how it is patched. It is a pure function of a plan and of
// the objects around the pod, which the webhook and the offline commands share.
package podreview

import (
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podpatch"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// Request is a pod that is about to be created. Review does not change it.
type Request struct {
	Pod     *corev1.Pod
	VPA     *vpav1.VerticalPodAutoscaler // that controls the pod; nil = none
	Limits  *facts.LimitRanges           // of the namespace; nil = none
	Objects facts.Objects                // nil = nothing is known
}

// Answer is the decision about a pod.
type Answer struct {
	Causes  []vpareview.Cause     // why the pod is refused; none = it is allowed
	Patch   []jsonpatch.Operation // of an allowed pod; none = it stays as it is
	Change  facts.PodChange       // what the patch writes
	Missing []Missing             // requests without a recommendation, of a pod with pod-level resources (AEP-7571)
	// Warnings are for whoever creates the pod: what celvpa does not change, lest the pod be refused.
	Warnings []string

	Unjudged []vpareview.Cause   // rules of pod.validate that failed, which refuses no pod
	Failed   []*engine.RuleError // other rules that failed; the values they set stay as they were
}

// Allowed reports whether the pod is accepted.
func (a *Answer) Allowed() bool { return len(a.Causes) == 0 }

// Review validates a pod by a plan, and computes its patch. The trace, usually nil, records how the resources came about.
func Review(plan *engine.Plan, req Request, trace *engine.Trace) Answer {
	var out Answer
	review := facts.ReviewPod(plan, facts.PodInput{Pod: req.Pod, VPA: req.VPA, Limits: req.Limits, Creating: true, Objects: req.Objects}, trace)
	for _, x := range review.Violations {
		cause := vpareview.Cause{Rule: x.Rule, Field: x.Path, Reason: metav1.CauseType(x.Reason), Message: x.Message, Failed: x.Failed}
		if x.Failed {
			out.Unjudged = append(out.Unjudged, cause)
		} else {
			out.Causes = append(out.Causes, cause)
		}
	}
	if req.VPA == nil || !out.Allowed() {
		return out
	}
	out.Change, out.Failed = review.Change, review.Failed
	out.Patch = podpatch.Admission(req.Pod, req.VPA.Name, out.Change)
	for _, left := range out.Change.Left {
		out.Warnings = append(out.Warnings, "VerticalPodAutoscaler "+req.VPA.Name+": "+left)
	}
	if out.Change.ReportMissing {
		out.Missing = missing(req.Pod, req.VPA)
	}
	return out
}

// Differences lists what other rules, whose answer is tried, would do differently with a pod.
func Differences(enforced, tried *Answer) (out []string) {
	for _, c := range vpareview.Differences(vpareview.Answer{Causes: enforced.Causes}, vpareview.Answer{Causes: tried.Causes}) {
		out = append(out, c.String())
	}
	if enforced.Allowed() && tried.Allowed() {
		out = append(out, facts.ChangeDifferences(enforced.Change, tried.Change)...)
	}
	return out
}

// ShadowWarnings words the differences of an overlay in mode Warn as warnings for the user who submits the pod; none in other modes.
func ShadowWarnings(shadow compile.Shadow, differences []string) (out []string) {
	if shadow.Mode != document.ModeWarn {
		return nil
	}
	for _, d := range differences {
		out = append(out, fmt.Sprintf("RuleOverlay %s (Warn) would change the pod: %s", shadow.Overlay, d))
	}
	return out
}

// Missing is a request for which the VPA has no target (AEP-7571, patch generation).
type Missing struct {
	Container string // empty = the pod as a whole
	Resource  corev1.ResourceName
}

// missing lists the requests without a target of a pod with pod-level resources: those of the pod, where a limit counts as a request
// because API servers fill the request in, then those of its containers.
func missing(pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler) []Missing {
	targets := map[string]corev1.ResourceList{}
	if r := v.Status.Recommendation; r != nil {
		for _, c := range r.ContainerRecommendations {
			if _, again := targets[c.ContainerName]; !again { // the first one counts
				targets[c.ContainerName] = c.Target
			}
		}
		if r.PodRecommendation != nil {
			targets[""] = r.PodRecommendation.Target
		}
	}
	var out []Missing
	add := func(container string, asked ...corev1.ResourceList) {
		for _, name := range facts.ScaledResources {
			for _, list := range asked {
				if _, requested := list[name]; !requested {
					continue
				}
				if _, recommended := targets[container][name]; !recommended {
					out = append(out, Missing{Container: container, Resource: name})
				}
				break
			}
		}
	}
	if r := pod.Spec.Resources; r != nil {
		add("", r.Requests, r.Limits)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Resources.Requests)
	}
	return out
}
