package simulate

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// parents are the scalable custom objects that own targets of VPAs: such a target is unsupported
// (UPSTREAM.md §2.6). Where it is not known whether an owner or a target is scalable, a note says what
// that would mean. find finds workloads, of which custom ones count as scalable.
func (c *Cluster) parents(vpas []*vpav1.VerticalPodAutoscaler, find func(ownerKey) *manifests.Workload) (out []manifests.Workload) {
	unknown, targets := map[schema.GroupKind][]string{}, map[schema.GroupKind][]string{}
	for _, v := range vpas {
		of := target.Of(v)
		w := find(ownerKey{of.Namespace, of.Kind, of.Name})
		if w == nil {
			continue
		}
		if w.Object == nil { // a custom one: its scale has no owners
			if _, known := c.set.HasScale(w.GroupKind); !known && w.Guessed() {
				targets[w.GroupKind] = append(targets[w.GroupKind], v.Namespace+"/"+v.Name)
			}
			continue
		}
		owner, kind := manifests.CustomOwner(w.Object.GetOwnerReferences())
		if owner == nil || find(ownerKey{of.Namespace, owner.Kind, owner.Name}) != nil {
			continue
		}
		switch scalable, known := c.set.Scalable(kind, of.Namespace, owner.Name); {
		case !known:
			unknown[kind] = append(unknown[kind], v.Namespace+"/"+v.Name)
		case scalable:
			out = append(out, manifests.Workload{GroupKind: kind, Namespace: of.Namespace, Name: owner.Name})
		}
	}
	for _, kind := range sortedKinds(targets) {
		c.note("kind %s, the target of VerticalPodAutoscaler %s, counts as one with a scale subresource, without which a cluster finds no pods of it; add its CustomResourceDefinition with -f to make sure", kind, Few(targets[kind]))
	}
	for _, kind := range sortedKinds(unknown) {
		c.note("an object of kind %s owns the target of VerticalPodAutoscaler %s; if that kind has a scale subresource, a cluster supports no such target (ConfigUnsupported) and leaves its pods alone", kind, Few(unknown[kind]))
	}
	return out
}

func sortedKinds(kinds map[schema.GroupKind][]string) []schema.GroupKind {
	return slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
}

// byKey finds workloads as owner references and targets name them.
func (p *placement) byKey() func(ownerKey) *manifests.Workload {
	all := make(map[ownerKey]*manifests.Workload, len(p.workloads))
	for _, w := range p.workloads {
		all[keyOf(&w.Workload)] = &w.Workload
	}
	return func(key ownerKey) *manifests.Workload { return all[key] }
}
