package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/target"
)

// changedBy is the VPA that a pod belongs to, or nil, and why in words.
type changedBy struct {
	vpa *matcher.VPA
	why string
}

func (c *view) controlling(pod *corev1.Pod) changedBy {
	v := c.match(c.asks.Purpose, pod)
	if v == nil {
		return changedBy{why: "no VerticalPodAutoscaler " + c.asks.verb + " it: " + c.whyNone(pod)}
	}
	why := v.String() + " " + c.asks.verb + " it"
	if r := v.Object.Status.Recommendation; r == nil || len(r.ContainerRecommendations) == 0 && r.PodRecommendation == nil {
		why += ", but has no recommendation"
	}
	for _, other := range c.candidates(pod) {
		if other != v && other.Competes(c.asks.Purpose) {
			why += fmt.Sprintf("; %s has the same target, and comes after it (point vpa.order)", other.Key())
		}
	}
	return changedBy{vpa: v, why: why}
}

// match is the VPA that has a pod; nil = none.
func (c *view) match(p matcher.Purpose, pod *corev1.Pod) *matcher.VPA {
	return matcher.First(matcher.Competing(p, c.candidates(pod)))
}

// leaving is the VPA of a pod that none changes: the one that ends its startup boost, or else the
// first that leaves it alone. nil = none.
func (c *view) leaving(pod *corev1.Pod) *matcher.VPA {
	if facts.Boosted(pod) {
		if v := c.match(matcher.Boost, pod); v != nil {
			return v
		}
	}
	return matcher.First(c.candidates(pod))
}

// candidates are the VPAs whose target selects a pod, whatever the rules say.
func (c *view) candidates(pod *corev1.Pod) (out []*matcher.VPA) {
	selected, known := c.selected[pod]
	if !known {
		selected = c.selecting(pod)
		c.selected[pod] = selected
	}
	for _, i := range selected {
		out = append(out, c.inOrder[i])
	}
	return out
}

func (c *view) selecting(pod *corev1.Pod) (out []int) {
	top, err := c.resolver.Top(context.Background(), pod, nil)
	if err != nil || top == nil {
		return nil
	}
	for _, i := range c.byTarget[ownerKey{top.Namespace, top.Kind, top.Name}] {
		if selects, why := top.Selects(context.Background(), c.inOrder[i].Object, pod); why == nil && selects {
			out = append(out, i)
		}
	}
	return out
}

// whyNone says why no VPA changes a pod.
func (c *view) whyNone(pod *corev1.Pod) string {
	owner := target.ControllerOf(pod.OwnerReferences)
	if owner == nil {
		return "no controller owns it (metadata.ownerReferences)"
	}
	if owner.Kind == "Node" {
		return "its node owns it"
	}
	chain := map[ownerKey]bool{}
	var targeting []int
	top := ""
	for owner != nil {
		key := ownerKey{pod.Namespace, owner.Kind, owner.Name}
		w := c.owners[key]
		if w == nil && top == "" {
			return fmt.Sprintf("%s %s/%s, which owns it, is not in the manifests", owner.Kind, pod.Namespace, owner.Name)
		}
		if w == nil || chain[key] {
			break
		}
		chain[key], top = true, w.String()
		targeting = append(targeting, c.byTarget[key]...)
		owner = target.ControllerOf(ownersOf(w))
	}
	var reasons []string
	slices.Sort(targeting)
	for _, i := range targeting {
		v := c.inOrder[i]
		reasons = append(reasons, fmt.Sprintf("%s %s", v, c.whyNot(pod, v)))
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("none has the target %s", top)
	}
	return strings.Join(reasons, "; ")
}

// whyNot says why a VPA whose target owns a pod does not change it.
func (c *view) whyNot(pod *corev1.Pod, v *matcher.VPA) string {
	takes, verdict := v.Competes(c.asks.Purpose), v.Verdict(c.asks.Purpose)
	switch selector, problem := c.resolver.Selector(context.Background(), v.Object); {
	case !takes && verdict.Reason != "":
		return fmt.Sprintf("leaves %s alone: %s (rule %s)", c.asks.pods, verdict.Reason, verdict.Rule)
	case !takes:
		return fmt.Sprintf("leaves %s alone (rule %s)", c.asks.pods, verdict.Rule)
	case problem != nil:
		return "cannot be used: " + problem.Message
	case !selector.Matches(labels.Set(pod.Labels)):
		return fmt.Sprintf("has a target whose selector %s does not match its labels", selector)
	}
	return "has a target that is not the topmost of its owners"
}

// noteStale notes recommendations for containers that no pod has. changed has an item per pod.
func (c *view) noteStale(pods []*corev1.Pod, changed []changedBy) {
	has, inits := map[*matcher.VPA]map[string]bool{}, map[*matcher.VPA]map[string]bool{}
	for i, pod := range pods {
		if v := changed[i].vpa; v != nil {
			if has[v] == nil {
				has[v], inits[v] = map[string]bool{}, map[string]bool{}
			}
			for j := range pod.Spec.InitContainers {
				inits[v][pod.Spec.InitContainers[j].Name] = true
			}
			for j := range pod.Spec.Containers {
				has[v][pod.Spec.Containers[j].Name] = true
			}
		}
	}
	for _, v := range c.sortedVPAs() {
		if has[v] == nil || v.Object.Status.Recommendation == nil {
			continue
		}
		for _, one := range v.Object.Status.Recommendation.ContainerRecommendations {
			switch {
			case has[v][one.ContainerName]:
			case inits[v][one.ContainerName]:
				c.note("%s: what it recommends for container %s is left out: it is an init container, and those, sidecars too, keep their resources", v, one.ContainerName)
			default:
				c.note("%s: what it recommends for container %s is left out: no pod of its target has such a container", v, one.ContainerName)
			}
		}
	}
}
