package simulate

import (
	"fmt"
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
	for _, pod := range u.evicted {
		var of []string
		for i := range u.budgets {
			if b := &u.budgets[i]; u.selects(b, pod) {
				asked[i], of = append(asked[i], keyOfPod(pod)), append(of, b.Name)
			}
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

func (u *updater) selects(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	if b.Namespace != pod.Namespace {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		u.note("PodDisruptionBudget %s/%s is left out: spec.selector: %v", b.Namespace, b.Name, err)
		return false
	}
	return selector.Matches(labels.Set(pod.Labels))
}

// allowedNow formats a budget's status, if any.
func allowedNow(b *policyv1.PodDisruptionBudget) string {
	s := &b.Status
	if s.ObservedGeneration == 0 && len(s.Conditions) == 0 && s.ExpectedPods == 0 {
		return ""
	}
	return fmt.Sprintf("; it allows %s now", Counted(int(s.DisruptionsAllowed), "eviction"))
}
