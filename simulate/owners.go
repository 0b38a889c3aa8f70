package simulate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/matcher"
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
		of := target.Of(v.Object)
		if of.Kind != "" && of.Name != "" && c.owners[ownerKey{of.Namespace, of.Kind, of.Name}] == nil {
			what, wayOut := c.lacking()
			c.gone[v.Key()] = fmt.Sprintf("its target, %s %s/%s, %s", of.Kind, of.Namespace, of.Name, what)
			c.note("%s %s/%s, the target of %s, %s, and no pod belongs to it%s", of.Kind, of.Namespace, of.Name, v, what, wayOut)
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
	for _, v := range c.targetingBeginnings(namespace, owner.Name) {
		of := target.Of(v.Object)
		kind, wellKnown := manifests.WellKnown(of.Kind)
		if !wellKnown || of.Name == "" || of.Kind == "CronJob" { // its pods' labels are unknown
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

// targetingBeginnings are the VPAs whose target has a name that another name begins with, those with
// the longest first.
func (c *view) targetingBeginnings(namespace, name string) (out []*matcher.VPA) {
	if c.byTargetName == nil {
		c.byTargetName = map[client.ObjectKey][]*matcher.VPA{}
		for _, v := range c.inOrder {
			key := client.ObjectKey{Namespace: v.Object.Namespace, Name: target.Of(v.Object).Name}
			c.byTargetName[key] = append(c.byTargetName[key], v)
		}
	}
	for beginning := range beginnings(name) {
		out = append(out, c.byTargetName[client.ObjectKey{Namespace: namespace, Name: beginning}]...)
	}
	return out
}

// sortedVPAs are all VPAs by namespace, in the order of the manifests.
func (c *view) sortedVPAs() (out []*matcher.VPA) {
	for _, list := range c.vpas {
		out = append(out, list...)
	}
	slices.SortStableFunc(out, func(x, y *matcher.VPA) int { return strings.Compare(x.Object.Namespace, y.Object.Namespace) })
	return out
}
