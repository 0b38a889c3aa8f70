package manifests

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// HasScale reports whether a kind has a scale subresource, or is a workload of Kubernetes' own. known
// is false for custom kinds whose CustomResourceDefinition is not in the manifests, unless a cluster
// was asked.
func (s *Set) HasScale(kind schema.GroupKind) (has, known bool) {
	if _, wellKnown := WellKnown(kind.Kind); wellKnown {
		return true, true
	}
	if len(scheme.Scheme.VersionsForGroupKind(kind)) > 0 { // another kind of Kubernetes' own
		return false, true
	}
	s.readCRDs()
	has, known = s.scaled[kind]
	return has, known
}

// readCRDs reads once which kinds have a scale subresource, in any version that is served.
func (s *Set) readCRDs() {
	if s.scaled != nil {
		return
	}
	s.scaled = map[schema.GroupKind]bool{}
	for i := range s.Documents {
		d := &s.Documents[i]
		if d.groupKind() != crdKind {
			continue
		}
		var crd struct {
			Spec struct {
				Group string `json:"group"`
				Names struct {
					Kind string `json:"kind"`
				} `json:"names"`
				Versions []struct {
					Served       bool `json:"served"`
					Subresources struct {
						Scale *struct{} `json:"scale"`
					} `json:"subresources"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if d.decode(&crd) != nil || crd.Spec.Names.Kind == "" {
			continue // a definition that cannot be read says nothing
		}
		kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		has := s.scaled[kind] // by another definition
		for _, version := range crd.Spec.Versions {
			has = has || version.Served && version.Subresources.Scale != nil
		}
		s.scaled[kind] = has
	}
}
