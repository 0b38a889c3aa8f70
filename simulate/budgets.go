package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// noteBudgets names the PodDisruptionBudgets of the pods to evict: only the API server can evaluate
// them. They do not apply to pending pods.
func (u *updater) noteBudgets() {
	asked := make([][]string, len(u.budgets))
	selecting := u.budgetsOf()
	for _, pod := range u.evicted {
		var of []string
		for _, i := range selecting(pod) {
			asked[i], of = append(asked[i], keyOfPod(pod)), append(of, u.budgets[i].Name)
		}
		if len(of) > 1 {
			u.note("pod %s: API servers evict no pod that several PodDisruptionBudgets select: %s", keyOfPod(pod), strings.Join(of, ", "))
		}
	}
	for i := range u.budgets {
		if b := &u.budgets[i]; len(asked[i]) > 0 {
			u.note("PodDisruptionBudget %s/%s applies to the eviction of %s: the API server may refuse it%s", b.Namespace, b.Name, Few(asked[i]), allowedNow(b))
		}
	}
}

// budgetsOf returns a function that finds the budgets that select a pod, in their order. A pod is
// compared with those of its namespace that ask for one of its labels, or for none.
func (u *updater) budgetsOf() func(*corev1.Pod) []int {
	type key struct{ namespace, label string }
	selectors := make([]labels.Selector, len(u.budgets))
	byLabel := map[key][]int{}
	for i := range u.budgets {
		b := &u.budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			if slices.ContainsFunc(u.evicted, func(pod *corev1.Pod) bool { return pod.Namespace == b.Namespace }) {
				u.note("PodDisruptionBudget %s/%s is left out: spec.selector: %v", b.Namespace, b.Name, err)
			}
			continue
		}
		selectors[i] = selector
		label := ""
		if b.Spec.Selector != nil && len(b.Spec.Selector.MatchLabels) > 0 {
			name := slices.Min(slices.Collect(maps.Keys(b.Spec.Selector.MatchLabels)))
			label = name + "=" + b.Spec.Selector.MatchLabels[name]
		}
		byLabel[key{b.Namespace, label}] = append(byLabel[key{b.Namespace, label}], i)
	}
	return func(pod *corev1.Pod) (out []int) {
		candidates := slices.Clone(byLabel[key{namespace: pod.Namespace}])
		for name, value := range pod.Labels {
			candidates = append(candidates, byLabel[key{pod.Namespace, name + "=" + value}]...)
		}
		slices.Sort(candidates)
		for _, i := range candidates {
			if selectors[i].Matches(labels.Set(pod.Labels)) {
				out = append(out, i)
			}
		}
		return out
	}
}

// allowedNow formats a budget's status, if any.
func allowedNow(b *policyv1.PodDisruptionBudget) string {
	s := &b.Status
	if s.ObservedGeneration == 0 && len(s.Conditions) == 0 && s.ExpectedPods == 0 {
		return ""
	}
	return fmt.Sprintf("; it allows %s now", Counted(int(s.DisruptionsAllowed), "eviction"))
}
