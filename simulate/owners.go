package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// addOwners finds the Deployments and CronJobs of pods whose ReplicaSets and Jobs are not in the
// manifests, and adds stand-ins for missing targets of VPAs that own pods.
func (c *view) addOwners(pods []*corev1.Pod) {
	for _, pod := range pods {
		owner := target.ControllerOf(pod.OwnerReferences)
		if owner == nil || c.owners[ownerKey{pod.Namespace, owner.Kind, owner.Name}] != nil {
			continue
		}
		if !c.madeByKnown(pod.Namespace, owner) {
			c.standIn(pod.Namespace, owner)
		}
	}
	for _, v := range c.sortedVPAs() {
		of := target.Of(v.VerticalPodAutoscaler)
		if of.Kind != "" && of.Name != "" && c.owners[ownerKey{of.Namespace, of.Kind, of.Name}] == nil {
			c.note("%s %s/%s, the target of %s, is not in the manifests, and no pod belongs to it; add its manifest with -f", of.Kind, of.Namespace, of.Name, v)
		}
	}
	known := make([]manifests.Workload, 0, len(c.owners))
	for _, w := range c.owners {
		known = append(known, *w)
	}
	c.resolver = &target.Resolver{Client: manifests.Client(known)}
}

// madeByKnown finds the workload that would make a missing owner; the longest name matches best.
func (c *view) madeByKnown(namespace string, owner *metav1.OwnerReference) bool {
	name := owner.Name
	for end := strings.LastIndexByte(name, '-'); end > 0; end = strings.LastIndexByte(name[:end], '-') {
		for _, kind := range manifests.Makers {
			w := c.owners[ownerKey{namespace, kind, name[:end]}]
			if w == nil {
				continue
			}
			if made, makes := w.MakesNamed(owner.Kind, name); makes {
				c.owners[keyOf(&made)] = &made
				return true
			}
		}
	}
	return false
}

// standIn adds a VPA's missing target if it owns pods, itself or indirectly. It selects them all.
func (c *view) standIn(namespace string, owner *metav1.OwnerReference) {
	for _, v := range c.longestFirst(namespace) {
		of := target.Of(v.VerticalPodAutoscaler)
		kind, wellKnown := manifests.WellKnown(of.Kind)
		if !wellKnown || of.Name == "" || !strings.HasPrefix(owner.Name, of.Name) || of.Kind == "CronJob" { // its pods' labels are unknown
			continue
		}
		w, err := manifests.StandIn(kind, namespace, of.Name, nil)
		made, makes := w.MakesNamed(owner.Kind, owner.Name)
		if err != nil || !makes && (of.Kind != owner.Kind || of.Name != owner.Name) {
			continue
		}
		c.owners[keyOf(&w)] = &w
		what := "pods that it owns"
		if makes {
			c.owners[keyOf(&made)] = &made
			what = fmt.Sprintf("pods of a %s whose name it would generate", made.Kind)
		}
		c.note("%s, the target of %s, is not in the manifests; %s are counted as its own", &w, v, what)
		return
	}
}

// longestFirst are the VPAs of a namespace, those with the longest name of a target first.
func (c *view) longestFirst(namespace string) []*judgedVPA {
	if sorted := c.longest[namespace]; sorted != nil {
		return sorted
	}
	sorted := slices.Clone(c.vpas[namespace])
	slices.SortStableFunc(sorted, func(x, y *judgedVPA) int {
		return cmp.Compare(len(target.Of(y.VerticalPodAutoscaler).Name), len(target.Of(x.VerticalPodAutoscaler).Name))
	})
	if c.longest == nil {
		c.longest = map[string][]*judgedVPA{}
	}
	c.longest[namespace] = sorted
	return sorted
}

// sortedVPAs are all VPAs by namespace, in the order of the manifests.
func (c *view) sortedVPAs() (out []*judgedVPA) {
	for _, list := range c.vpas {
		out = append(out, list...)
	}
	slices.SortStableFunc(out, func(x, y *judgedVPA) int { return strings.Compare(x.Namespace, y.Namespace) })
	return out
}
