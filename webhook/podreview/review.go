// Package podreview answers what becomes of a new pod. It is a pure function of a plan and of what the pod is reviewed with: the
// webhook and the offline commands share it.
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

// Request is one pod about to be created. It is only read.
type Request struct {
	Pod    *corev1.Pod
	VPA    *vpav1.VerticalPodAutoscaler // that changes it; nil = none
	Limits *facts.LimitRanges           // of its namespace; nil = there are none
}

// Answer is what becomes of it.
type Answer struct {
	Causes  []vpareview.Cause     // why the pod is refused; none = it is allowed
	Patch   []jsonpatch.Operation // for a pod that is allowed; none = it stays as it is
	Change  facts.PodChange       // what the patch writes
	Missing []Missing             // what is requested and has no recommendation, where a pod has resources at pod level (AEP-7571)

	Unjudged []vpareview.Cause   // rules of pod.validate that could not judge the pod, which is not refused for that
	Failed   []*engine.RuleError // other rules that could not run: what they were about is left as it was
}

// Allowed reports whether the pod is accepted.
func (a *Answer) Allowed() bool { return len(a.Causes) == 0 }

// Review judges a pod by a plan, and changes it. The trace, nil as a rule, collects how its resources came about.
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
	if out.Change.ReportMissing {
		out.Missing = missing(req.Pod, req.VPA)
	}
	return out
}
