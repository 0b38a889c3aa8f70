package webhook

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// auditPod records what overlays that are not enforced would set on a new pod. The result is for whoever submits it:
// what those in mode Warn would change.
func (h *Handler) auditPod(req admission.Request, log logr.Logger, v *vpav1.VerticalPodAutoscaler, pod *corev1.Pod, shadows []engine.Shadow, enforced []facts.ContainerChange) (warnings []string) {
	defer policy.UntilPanic(log)
	for _, shadow := range shadows {
		if shadow.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), nil).Do != facts.DoApply {
			continue // told by auditAdmission
		}
		tried, _ := facts.ResourcesForPod(shadow.Plan, pod, v, nil)
		differs := facts.ChangeDifferences(enforced, tried)
		h.record(req, v, shadow, "new pods", differs)
		warnings = append(warnings, shadowWarnings(shadow, "would change the pod: ", differs)...)
	}
	return warnings
}

// auditVPA records what overlays that are not enforced would say about a VPA.
func (h *Handler) auditVPA(req admission.Request, v *vpav1.VerticalPodAutoscaler, chosen engine.Selection, object, old map[string]any) (warnings []string) {
	if len(chosen.Shadows) == 0 {
		return nil
	}
	defer policy.UntilPanic(h.Log.WithValues("namespace", v.Namespace, "vpa", v.Name))
	enforced := violationTexts(chosen.Plan.Validate(facts.VPAValidate, engine.Judged{Object: object, Old: old}, nil))
	for _, shadow := range chosen.Shadows {
		tried := violationTexts(shadow.Plan.Validate(facts.VPAValidate, engine.Judged{Object: object, Old: old}, nil))
		var differs []string
		for _, text := range tried {
			if !slices.Contains(enforced, text) {
				differs = append(differs, "would "+text)
			}
		}
		for _, text := range enforced {
			if !slices.Contains(tried, text) {
				differs = append(differs, "would not "+text)
			}
		}
		h.record(req, v, shadow, "validation", differs)
		warnings = append(warnings, shadowWarnings(shadow, "", differs)...)
	}
	return warnings
}

// auditAdmission records what overlays that are not enforced would say about whether a VPA changes new pods. mine tells
// whether the pod at hand is one of its pods; it is asked only where that matters.
func (h *Handler) auditAdmission(req admission.Request, v *vpav1.VerticalPodAutoscaler, shadows []engine.Shadow, enforced engine.Verdict, mine func() bool) {
	defer policy.UntilPanic(h.Log.WithValues("namespace", v.Namespace, "vpa", v.Name))
	for _, shadow := range shadows {
		tried := shadow.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(v), nil)
		if differs := policy.VerdictDifference(enforced, tried); len(differs) > 0 && mine() {
			h.record(req, v, shadow, "whether new pods are changed", differs)
		}
	}
}

// record leaves no trace of a dry run.
func (h *Handler) record(req admission.Request, v *vpav1.VerticalPodAutoscaler, shadow engine.Shadow, about string, differs []string) {
	if req.DryRun == nil || !*req.DryRun {
		h.Shadows.Record(v, shadow, about, differs)
	}
}

// violationTexts says what rules do about an object, in the words that follow "would".
func violationTexts(list []engine.Violation) (out []string) {
	for _, x := range list {
		verb := "refuse this: "
		if x.Warning {
			verb = "warn: "
		}
		out = append(out, verb+violationText(x))
	}
	return out
}

func violationText(x engine.Violation) string {
	return fmt.Sprintf("%s: %s (rule %s)", x.Path, x.Message, x.Rule)
}

func shadowWarnings(shadow engine.Shadow, what string, differs []string) (out []string) {
	if shadow.Mode != engine.ModeWarn {
		return nil
	}
	for _, d := range differs {
		out = append(out, fmt.Sprintf("RuleOverlay %s (Warn) %s%s", shadow.Overlay, what, d))
	}
	return out
}

// unknownPin is vpareview.UnknownPin in the words of admission.
func unknownPin(err error, v, old *vpav1.VerticalPodAutoscaler) (out []metav1.StatusCause) {
	for _, c := range vpareview.UnknownPin(err, v.Annotations, old.Annotations) {
		out = append(out, metav1.StatusCause{Type: c.Reason, Field: c.Field, Message: c.Message})
	}
	return out
}
