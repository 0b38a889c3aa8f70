package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// noteContainers notes containers that occur in usage but not in their pods' manifests.
func (c *Cluster) noteContainers(usage []Seen, pods map[model.PodID]*corev1.Pod) {
	for _, of := range usage {
		if pod := pods[of.Pod]; pod != nil && !hasContainer(&pod.Spec, of.Container) {
			c.note("pod %s/%s has no container %s in its manifest: its usage is left out", of.Pod.Namespace, of.Pod.Name, of.Container)
		}
	}
}

// notePlaces notes guesses and gaps.
func (c *Cluster) notePlaces(p *placement, left []*seenPod) {
	workloads := slices.SortedFunc(slices.Values(p.workloads), func(a, b *placed) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	p.findElsewhere(left)
	what, wayOut := c.lacking()
	for _, w := range workloads {
		n, like := len(w.inUsage)+len(w.manifests), "it would generate"
		if w.loosely {
			like = "begin with " + w.Name
		}
		taken := fmt.Sprintf("pods whose names %s are counted as its own: %d", like, n)
		switch {
		case w.standIn && n > 0:
			c.note("%s, the target of VerticalPodAutoscaler %s, %s; %s", &w.Workload, strings.Join(w.asked, ", "), what, taken)
		case w.standIn:
			c.note("%s, the target of VerticalPodAutoscaler %s, %s, and no pod has a name that begins with its name%s%s",
				&w.Workload, strings.Join(w.asked, ", "), what, wayOut, w.elsewhere)
		case w.loosely:
			c.note("%s: no pod has a name that it would generate; %s", &w.Workload, taken)
		}
	}
	var names []string
	for _, pod := range left {
		names = append(names, pod.id.Namespace+"/"+pod.id.Name)
	}
	if len(left) > 0 {
		c.note("%s of usage left out, of no workload in the manifests: %s%s", Counted(len(left), "pod"), Few(names), oddlyNamed(byNamespace(workloads), left))
	}
}

// oddlyNamed explains why a pod whose name begins with that of a workload is none of its pods; empty if there is no such pod.
func oddlyNamed(workloads map[string]*placedIndex, left []*seenPod) string {
	for _, pod := range left {
		w := workloads[pod.id.Namespace].named(pod.id.Name, func(w *placed) bool { return !w.standIn && w.BeginsLike(pod.id.Name) })
		if w != nil {
			return fmt.Sprintf("; pods of %s have names such as %s", &w.Workload, w.NamesSuch())
		}
	}
	return ""
}

// findElsewhere finds in other namespaces what stand-ins without pods may stand for.
func (p *placement) findElsewhere(left []*seenPod) {
	type kindName struct {
		kind schema.GroupKind
		name string
	}
	var idle []*placed
	there := map[kindName]*placed{}
	for _, w := range p.workloads {
		switch key := (kindName{w.GroupKind, w.Name}); {
		case w.standIn && !w.any():
			idle = append(idle, w)
		case !w.standIn && there[key] == nil:
			there[key] = w
		}
	}
	for _, w := range idle {
		if other := there[kindName{w.GroupKind, w.Name}]; other != nil {
			w.elsewhere = "; there is one in namespace " + other.Namespace
		}
	}
	anywhere := newPlacedIndex(idle)
	for _, pod := range left {
		anywhere.named(pod.id.Name, func(w *placed) bool {
			if w.elsewhere == "" && w.NamesLike(pod.id.Name) {
				w.elsewhere = "; there are such pods in namespace " + pod.id.Namespace
			}
			return false // there may be others
		})
	}
}
