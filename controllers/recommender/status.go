package recommender

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// Update is what the status of a VPA should be.
type Update struct {
	Workload *Workload
	Status   *vpav1.VerticalPodAutoscalerStatus
	// Urgent: more than the bounds change, which drift with every sample.
	Urgent bool
	First  bool // the VPA has no status yet
	// What became of it.
	written, postponed bool
}

// Update evaluates a VPA; nil when its status is up to date. A panic affects this VPA only, and its
// condition RulesApplied reports it.
func (s *State) Update(w *Workload, now time.Time) *Update {
	of := evaluation{version: w.VPA.ResourceVersion, rules: s.rules, unknown: w.Found.Unknown}
	if w.Found.Problem != nil {
		of.problem = w.Found.Problem.Message
	}
	if !w.model.TakeChanged() && w.done == of && w.waiting.IsZero() && w.panicked == "" && len(w.Chosen.Shadows) == 0 && !s.asksObjects(w) {
		s.observeUnchanged(w)
		return nil
	}
	status := s.evaluate(w, now)
	if w.sent.version != w.VPA.ResourceVersion {
		w.sent = sentStatus{}
	}
	if w.sent.status != nil && equality.Semantic.DeepEqual(status, w.sent.status) ||
		equality.Semantic.DeepEqual(*status, w.VPA.Status) && w.VPA.StatusUnreadable == "" {
		w.done, w.waiting = of, time.Time{}
		return nil
	}
	u := &Update{Workload: w, Status: status, Urgent: urgent(&w.VPA.Status, status), First: len(w.VPA.Status.Conditions) == 0}
	if !u.Urgent && w.VPA.StatusUnreadable == "" && s.tolerates(&w.VPA.Status, status) {
		writesTotal.WithLabelValues("status", "tolerated").Inc()
		w.done, w.waiting = of, time.Time{}
		return nil
	}
	w.done = evaluation{} // the VPA is evaluated again once the write shows
	return u
}

// evaluate is status, unless something panicked.
func (s *State) evaluate(w *Workload, now time.Time) (status *vpav1.VerticalPodAutoscalerStatus) {
	if w.panicked == "" {
		s.contained(w, "evaluating this object", func() { status = s.status(w, now) })
	}
	if w.panicked == "" {
		return status
	}
	status = w.VPA.Status.DeepCopy()
	conditions := conditionSet{list: status.Conditions, now: metav1.NewTime(now)}
	conditions.set(vpav1.RulesApplied, corev1.ConditionFalse, "Panic",
		w.panicked+"; the recommendation is left as it is; please report this, the log has the details")
	status.Conditions = conditions.sorted()
	return status
}

// status is what the VPA's status should be.
func (s *State) status(w *Workload, now time.Time) *vpav1.VerticalPodAutoscalerStatus {
	v := w.VPA
	status := v.Status.DeepCopy()
	generation := v.Generation
	status.ObservedGeneration = &generation
	conditions := conditionSet{list: status.Conditions, now: metav1.NewTime(now)}
	defer func() { status.Conditions = conditions.sorted() }()

	s.notices.Report(s.log(w), w.String()+" rules", w.Chosen.Err, "recommendation unchanged")
	if w.Chosen.Err != nil { // the recommendation of rules that are gone stays
		conditions.set(vpav1.RulesApplied, corev1.ConditionFalse, "RulesNotFound", w.Chosen.Err.Error()+"; the recommendation is left as it is")
		return status
	}
	if fault := v.SpecUnreadable; fault != "" {
		conditions.set(vpav1.ConfigUnsupported, corev1.ConditionTrue, "", fault+"; the recommendation is left as it is until the object is fixed")
		return status
	}
	if problem := w.Found.Problem; problem != nil {
		conditions.set(vpav1.ConfigUnsupported, corev1.ConditionTrue, "", problem.Message)
		if w.Found.Unknown && hasRecommendation(status.Recommendation) {
			return status // the recommendation stays until the target is known (UPSTREAM.md Appendix B 10)
		}
	} else {
		conditions.remove(vpav1.ConfigUnsupported)
	}
	view := model.View{}
	if w.selector() != nil {
		view = s.view(w, now)
	}
	result := s.recommend(w, view, false)
	s.failed(w, "recommendation", "values unchanged", result.Failed)
	s.audit(w, view, result)
	recommendation := result.keep(status.Recommendation)
	status.Recommendation = recommendation
	s.remember(w, result, view.Pods)
	w.noteTargets(recommendation, now)
	provided(&conditions, view.Pods, len(recommendation.ContainerRecommendations) > 0, unknownMessage(result.Unknown, view.Ended))
	if len(result.LowConfidence) > 0 {
		conditions.set(vpav1.LowConfidence, corev1.ConditionTrue, "LittleHistory",
			"little usage is known yet, and bounds are wide, of container "+strings.Join(result.LowConfidence, ", "))
	} else {
		conditions.remove(vpav1.LowConfidence)
	}
	if len(result.Failed) > 0 {
		conditions.set(vpav1.RulesApplied, corev1.ConditionFalse, "RulesFailed", failedMessage(result.Failed)+"; "+rulesMessage(w.Chosen))
	} else {
		conditions.set(vpav1.RulesApplied, corev1.ConditionTrue, w.Chosen.Plan.Pipeline(), rulesMessage(w.Chosen))
	}
	return status
}

// failedMessage names the rules that failed.
func failedMessage(failed []*engine.RuleError) string {
	names := map[string]bool{}
	for _, e := range failed {
		name := e.Path
		var bound *outOfOrder
		if errors.As(e.Err, &bound) {
			name += " (" + bound.Error() + ")"
		}
		if e.Slow != nil {
			name += fmt.Sprintf(" (too slow: %s is left out)", e.Slow)
		}
		names[name] = true
	}
	return "rules failed, and what they would have set is as before: " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// usageUnknown is the reason of condition RecommendationProvided when usage is missing for part of
// the recommendation.
const usageUnknown = "UsageUnknown"

// unknownMessage names the containers that lack a recommendation, or part of it, because too little
// usage is known; empty without any. Usage of containers that ended long ago has been dropped.
func unknownMessage(unknown []Unknown, ended []string) string {
	of := map[string][]string{}
	for _, u := range unknown {
		what := "memory"
		if u.CPU && u.Memory {
			what = "cpu and memory"
		} else if u.CPU {
			what = "cpu"
		}
		of[what] = append(of[what], u.Container)
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, what+" of container "+strings.Join(of[what], ", "))
	}
	var out []string
	if len(parts) > 0 {
		out = append(out, "too little usage is known to recommend "+strings.Join(parts, "; "))
	}
	if len(ended) > 0 {
		out = append(out, "the last usage is too long ago of container "+strings.Join(ended, ", "))
	}
	return strings.Join(out, "; ")
}

// provided sets condition RecommendationProvided, with the reason why a recommendation or part of
// it is missing (UPSTREAM.md §2.6). Upstream knows one reason only: no pods.
func provided(conditions *conditionSet, pods int, any bool, unknown string) {
	status, reason, message := corev1.ConditionFalse, "", unknown
	if any {
		status = corev1.ConditionTrue
	}
	if unknown != "" {
		reason = usageUnknown
	}
	if pods > 0 {
		conditions.remove(vpav1.NoPodsMatched)
	} else {
		none, why := string(vpav1.NoPodsMatched), "No pods match this VPA object"
		conditions.set(vpav1.NoPodsMatched, corev1.ConditionTrue, none, why)
		reason, message = "", ""
		if !any {
			reason, message = none, why
		}
	}
	conditions.set(vpav1.RecommendationProvided, status, reason, message)
}

// rulesMessage names the rules that decided: the digest, the enforced overlays and the audited
// ones.
func rulesMessage(s compile.Selection) string {
	message := "digest " + s.Plan.Digest()
	if names := s.Plan.Overlays(); len(names) > 0 {
		message += ", overlays " + strings.Join(names, ", ")
	}
	var tried []string
	for _, shadow := range s.Shadows {
		tried = append(tried, shadow.Overlay+" ("+shadow.Mode+")")
	}
	if len(tried) > 0 {
		message += "; not enforced: " + strings.Join(tried, ", ")
	}
	if s.Unknown != nil {
		message += "; " + s.Unknown.Error()
	}
	for _, err := range s.Unevaluated {
		message += "; cannot be tried: " + err.Error()
	}
	return message
}

// recommend is Recommend with the policies and plans that are kept for the VPA.
func (s *State) recommend(w *Workload, view model.View, explain bool) Result {
	return recommend(w.VPA, view, explain, w.Chosen.Plan, func(container string) *effective { return s.effective(w, container) })
}

func hasRecommendation(r *vpav1.RecommendedPodResources) bool {
	return r != nil && len(r.ContainerRecommendations) > 0
}

// urgent reports whether a status differs in more than the bounds and the observed generation.
func urgent(before, after *vpav1.VerticalPodAutoscalerStatus) bool {
	return !equality.Semantic.DeepEqual(before.Conditions, after.Conditions) ||
		!equality.Semantic.DeepEqual(targetsOf(before.Recommendation), targetsOf(after.Recommendation))
}

// targetsOf are the targets of a recommendation by container, that of the pod as a whole under the
// empty name.
func targetsOf(r *vpav1.RecommendedPodResources) map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	if r == nil {
		return out
	}
	for _, c := range r.ContainerRecommendations {
		out[c.ContainerName] = c.Target
	}
	if r.PodRecommendation != nil {
		out[""] = r.PodRecommendation.Target
	}
	return out
}

// conditionSet changes conditions the way upstream does (UPSTREAM.md §2.6): the transition time
// moves with the status only, and foreign conditions stay.
type conditionSet struct {
	list []vpav1.VerticalPodAutoscalerCondition
	now  metav1.Time
}

func (c *conditionSet) set(t vpav1.VerticalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, message string) {
	condition := vpav1.VerticalPodAutoscalerCondition{Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: c.now}
	for i := range c.list {
		if c.list[i].Type == t {
			if c.list[i].Status == status {
				condition.LastTransitionTime = c.list[i].LastTransitionTime
			}
			c.list[i] = condition
			return
		}
	}
	c.list = append(c.list, condition)
}

func (c *conditionSet) remove(t vpav1.VerticalPodAutoscalerConditionType) {
	c.list = slices.DeleteFunc(c.list, func(condition vpav1.VerticalPodAutoscalerCondition) bool { return condition.Type == t })
}

func (c *conditionSet) sorted() []vpav1.VerticalPodAutoscalerCondition {
	slices.SortStableFunc(c.list, func(a, b vpav1.VerticalPodAutoscalerCondition) int { return cmp.Compare(a.Type, b.Type) })
	return c.list
}

// isTrue reports whether a VPA has a condition that is True.
func isTrue(v *vpav1.VerticalPodAutoscaler, t vpav1.VerticalPodAutoscalerConditionType) bool {
	return slices.ContainsFunc(v.Status.Conditions, func(condition vpav1.VerticalPodAutoscalerCondition) bool {
		return condition.Type == t && condition.Status == corev1.ConditionTrue
	})
}
