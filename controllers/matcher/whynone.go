package matcher

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Contender is a VPA that has an owner of a pod as its target.
type Contender struct {
	VPA    *vpav1.VerticalPodAutoscaler
	Leaves string // why rules let it leave the pod alone, as in "leaves new pods alone"; empty = they do not, or are not known
}

// WhyNone says why no VPA has a pod. contenders are the VPAs with one of the owners of the pod as their
// target.
func WhyNone(ctx context.Context, r *target.Resolver, pod *corev1.Pod, contenders func(owner target.Key) []Contender) string {
	top, owners, err := r.Owners(ctx, pod)
	switch {
	case err != nil:
		return err.Error()
	case top == nil && target.ControllerOf(pod.OwnerReferences) == nil:
		return "no controller owns it (metadata.ownerReferences)"
	case top == nil:
		return "its node owns it"
	}
	var reasons []string
	for _, owner := range owners {
		for _, c := range contenders(owner) {
			reasons = append(reasons, fmt.Sprintf("VerticalPodAutoscaler %s/%s %s", c.VPA.Namespace, c.VPA.Name, c.why(ctx, r, pod)))
		}
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("none has the target %s %s/%s", top.Kind, top.Namespace, top.Name)
	}
	return strings.Join(reasons, "; ")
}

// why says why a contender does not have a pod.
func (c Contender) why(ctx context.Context, r *target.Resolver, pod *corev1.Pod) string {
	selector, problem := r.Selector(ctx, c.VPA)
	switch {
	case c.Leaves != "":
		return c.Leaves
	case problem != nil:
		return "cannot be used: " + problem.Message
	case !selector.Matches(labels.Set(pod.Labels)):
		return fmt.Sprintf("has a target whose selector %s does not match its labels", selector)
	}
	return "has a target that is not the topmost of its owners"
}
