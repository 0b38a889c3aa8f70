package manifests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/crds/quantity"
)

// Custom finds a custom workload. Manifests lack its scale, so it guesses where most kinds have it:
// the selector in status.selector, status.labelSelector or spec.selector, then spec.replicas and
// spec.template. found is false without such an object.
func (s *Set) Custom(kind schema.GroupKind, namespace, name string) (w Workload, found bool, err error) {
	documents := s.of(identity{kind, namespace, name})
	if len(documents) == 0 {
		return w, false, nil
	}
	d := documents[0]
	var object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			Replicas json.RawMessage `json:"replicas"`
			Selector json.RawMessage `json:"selector"`
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
		Status struct {
			Selector      json.RawMessage `json:"selector"`
			LabelSelector json.RawMessage `json:"labelSelector"`
		} `json:"status"`
	}
	if err := d.decode(&object); err != nil {
		return w, true, err
	}
	w = Workload{GroupKind: kind, Namespace: namespace, Name: name, Owners: object.Metadata.OwnerReferences, created: object.Metadata.CreationTimestamp, written: d}
	for _, raw := range []json.RawMessage{object.Status.Selector, object.Status.LabelSelector, object.Spec.Selector} {
		if w.Selector == "" {
			w.Selector = selectorText(raw)
		}
	}
	var replicas int32
	if len(object.Spec.Replicas) > 0 && json.Unmarshal(object.Spec.Replicas, &replicas) == nil {
		w.Replicas = &replicas
	}
	var template corev1.PodTemplateSpec
	if len(object.Spec.Template) > 0 {
		switch err := quantity.Unmarshal(object.Spec.Template, &template); {
		case err == nil:
			w.Template = template
		case errors.As(err, new(*quantity.Fault)):
			return w, true, fmt.Errorf("%s: the template of %s cannot be read: %w", d.Source, d, err)
		} // another kind of template
	}
	return w, true, nil
}

// selectorText converts a selector (text, labels or object) to a scale's form; empty if invalid.
func selectorText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var selector metav1.LabelSelector
	if json.Unmarshal(raw, &selector) == nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
		if parsed, err := metav1.LabelSelectorAsSelector(&selector); err == nil {
			return parsed.String()
		}
	}
	var labels map[string]string
	if json.Unmarshal(raw, &labels) == nil && len(labels) > 0 {
		return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
	}
	return ""
}

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
	if has, known = s.scaled[kind]; known {
		return has, known
	}
	if kinds, tells := s.live.(target.Kinds); tells {
		return kinds.HasScale(context.Background(), kind)
	}
	return false, false
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
		var crd apiextensionsv1.CustomResourceDefinition
		if d.decode(&crd) != nil || crd.Spec.Names.Kind == "" {
			continue // a definition that cannot be read says nothing
		}
		kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		has := s.scaled[kind] // by another definition
		for _, version := range crd.Spec.Versions {
			has = has || version.Served && version.Subresources != nil && version.Subresources.Scale != nil
		}
		s.scaled[kind] = has
	}
}
