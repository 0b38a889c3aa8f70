package simulate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/target"
)

// changedBy is the VPA that a pod belongs to, or nil, and why in words.
type changedBy struct {
	vpa *matcher.VPA
	why string
}

func (w *world) controlling(pod *corev1.Pod) changedBy {
	v := w.match(w.asks.Purpose, pod)
	if v == nil {
		return changedBy{why: "no VerticalPodAutoscaler controls it: " + w.whyNone(pod)}
	}
	why := v.String() + " controls it"
	if r := v.Object.Status.Recommendation; r == nil || len(r.ContainerRecommendations) == 0 && r.PodRecommendation == nil {
		why += ", but has no recommendation"
	}
	for _, other := range w.candidates(pod) {
		if other != v && other.Competes(w.asks.Purpose) {
			why += fmt.Sprintf("; %s has the same target, and comes after it (point vpa.order)", other.Key())
		}
	}
	return changedBy{vpa: v, why: why}
}

// match is the VPA that has a pod; nil = none.
func (w *world) match(p matcher.Purpose, pod *corev1.Pod) *matcher.VPA {
	return matcher.First(matcher.Competing(p, w.candidates(pod)))
}

// leaving is the VPA of a pod that none changes: the one that ends its startup boost, or else the
// first that leaves it alone. nil = none.
func (w *world) leaving(pod *corev1.Pod) *matcher.VPA {
	if facts.Boosted(pod) {
		if v := w.match(matcher.Boost, pod); v != nil {
			return v
		}
	}
	return matcher.First(w.candidates(pod))
}

// candidates are the VPAs whose target selects a pod, whatever the rules say.
func (w *world) candidates(pod *corev1.Pod) (out []*matcher.VPA) {
	positions, known := w.selecting[pod]
	if !known {
		positions = w.selects(pod)
		w.selecting[pod] = positions
	}
	for _, i := range positions {
		out = append(out, w.vpas[i])
	}
	return out
}

// selects are the positions of the candidates.
func (w *world) selects(pod *corev1.Pod) (out []int) {
	top, err := w.resolver.Topmost(context.Background(), pod)
	if err != nil || top == nil {
		return nil
	}
	for _, i := range w.byTarget[top.Key.Unversioned()] {
		if selects, why := top.Selects(context.Background(), w.vpas[i].Object, pod); why == nil && selects {
			out = append(out, i)
		}
	}
	return out
}

// whyNone says why no VPA changes a pod.
func (w *world) whyNone(pod *corev1.Pod) string {
	if owner := target.ControllerOf(pod.OwnerReferences); owner != nil && owner.Kind != "Node" && w.owners[ownerKey(pod.Namespace, owner)] == nil {
		return fmt.Sprintf("%s %s/%s, which owns it, is not in the manifests", owner.Kind, pod.Namespace, owner.Name)
	}
	return matcher.WhyNone(context.Background(), w.resolver, pod, func(owner target.Key) (out []matcher.Contender) {
		for _, i := range w.byTarget[owner.Unversioned()] {
			out = append(out, matcher.Contender{VPA: w.vpas[i].Object, Leaves: w.leaves(w.vpas[i])})
		}
		return out
	})
}

// leaves says why rules let a VPA leave pods alone; empty = they do not.
func (w *world) leaves(v *matcher.VPA) string {
	verdict := v.Verdict(w.asks.Purpose)
	switch {
	case v.Competes(w.asks.Purpose):
		return ""
	case verdict.Reason != "":
		return fmt.Sprintf("leaves %s alone: %s (rule %s)", w.asks.pods, verdict.Reason, verdict.Rule)
	}
	return fmt.Sprintf("leaves %s alone (rule %s)", w.asks.pods, verdict.Rule)
}

// noteStale notes recommendations for containers that no pod has. changed has an item per pod.
func (w *world) noteStale(pods []*corev1.Pod, changed []changedBy) {
	type container struct {
		vpa  *matcher.VPA
		name string
	}
	controls, has, inits := map[*matcher.VPA]bool{}, map[container]bool{}, map[container]bool{}
	for i, pod := range pods {
		v := changed[i].vpa
		controls[v] = true
		for j := range pod.Spec.InitContainers {
			inits[container{v, pod.Spec.InitContainers[j].Name}] = true
		}
		for j := range pod.Spec.Containers {
			has[container{v, pod.Spec.Containers[j].Name}] = true
		}
	}
	for _, v := range w.sortedVPAs() {
		if !controls[v] || v.Object.Status.Recommendation == nil || !w.Selects(v.Object) {
			continue
		}
		for _, c := range v.Object.Status.Recommendation.ContainerRecommendations {
			switch one := (container{v, c.ContainerName}); {
			case has[one]:
			case inits[one]:
				w.note("%s: what it recommends for container %s is left out: it is an init container, and those, sidecars too, keep their resources", v, c.ContainerName)
			default:
				w.note("%s: what it recommends for container %s is left out: no pod of its target has such a container", v, c.ContainerName)
			}
		}
	}
}
