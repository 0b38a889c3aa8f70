package recommender

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

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
