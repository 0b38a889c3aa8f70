package webhook

import (
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook/podreview"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// auditPod records what overlays that are not enforced would do with a new pod. It returns what those in mode Warn would change,
// as warnings for the user who submits the pod.
func (h *Handler) auditPod(req admission.Request, log logr.Logger, v *vpav1.VerticalPodAutoscaler, review podreview.Request, shadows []compile.Shadow, enforced *podreview.Answer) (warnings []string) {
	defer policy.UntilPanic(log)
	for _, shadow := range shadows {
		if review.VPA != nil && matcher.Ask(shadow.Plan, matcher.Admission, v, nil).Do != facts.DoApply {
			continue // auditAdmission records that
		}
		tried := podreview.Review(shadow.Plan, review, nil)
		differs := podreview.Differences(enforced, &tried)
		if review.VPA != nil {
			h.record(req, v, shadow, "new pods", differs)
		}
		warnings = append(warnings, podreview.ShadowWarnings(shadow, differs)...)
	}
	return warnings
}

// auditVPA records what overlays that are not enforced would say about a VPA.
func (h *Handler) auditVPA(req admission.Request, v *vpav1.VerticalPodAutoscaler, shadows []compile.Shadow, review vpareview.Request, enforced vpareview.Answer) (warnings []string) {
	defer policy.UntilPanic(h.Log.WithValues("namespace", v.Namespace, "vpa", v.Name))
	for _, shadow := range shadows {
		differs := vpareview.Differences(enforced, vpareview.Review(shadow.Plan, review))
		h.record(req, v, shadow, "validation", texts(differs))
		warnings = append(warnings, texts(vpareview.ShadowWarnings(shadow, differs))...)
	}
	return warnings
}

// auditAdmission records where overlays that are not enforced would decide otherwise whether a VPA changes new pods. mine reports
// whether the pod under review is one of the VPA's; it is called only where that matters.
func (h *Handler) auditAdmission(req admission.Request, v *matcher.VPA, mine func() bool) {
	defer policy.UntilPanic(h.Log.WithValues("namespace", v.Object.Namespace, "vpa", v.Object.Name))
	for _, shadow := range v.Rules.Shadows {
		if differs := v.Differs(matcher.Admission, shadow); len(differs) > 0 && mine() {
			h.record(req, v.Object, shadow, "whether new pods are changed", differs)
		}
	}
}

// record ignores dry runs.
func (h *Handler) record(req admission.Request, v *vpav1.VerticalPodAutoscaler, shadow compile.Shadow, about string, differs []string) {
	if req.DryRun == nil || !*req.DryRun {
		h.Shadows.Record(v, shadow, about, differs)
	}
}
