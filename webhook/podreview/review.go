// Package podreview decides about a new pod: whether it is refused, and how it is patched. It is a pure function of a plan and of
// the objects around the pod, which the webhook and the offline commands share.
package podreview

import (
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podpatch"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// Request is a pod that is about to be created. Review does not change it.
type Request struct {
	Pod    *corev1.Pod
	VPA    *vpav1.VerticalPodAutoscaler // that controls the pod; nil = none
	Limits *facts.LimitRanges           // of the namespace; nil = none
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
	review := facts.ReviewPod(plan, facts.PodInput{Pod: req.Pod, VPA: req.VPA, Limits: req.Limits, Creating: true}, trace)
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
