package manifests

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// found are objects that were asked for; nil = it is not known.
type found struct {
	mu      sync.Mutex
	objects map[identity]client.Object
	nodes   *facts.NodeTotals // nil = they were not asked for, or are not known
}

// lookUp returns an object of the files or, each once, of the cluster; nil if it is not known.
func (s *Set) lookUp(id identity, into client.Object) client.Object {
	s.found.mu.Lock()
	defer s.found.mu.Unlock()
	if object, asked := s.found.objects[id]; asked {
		return object
	}
	known := s.live != nil && s.live.Get(context.Background(), client.ObjectKey{Namespace: id.namespace, Name: id.name}, into) == nil
	for i := range s.Documents {
		if d := &s.Documents[i]; !known && d.Name == id.name && d.Namespace == id.namespace && d.groupKind() == id.kind {
			known = d.decode(into) == nil
		}
	}
	if !known {
		into = nil
	}
	if s.found.objects == nil {
		s.found.objects = map[identity]client.Object{}
	}
	s.found.objects[id] = into
	return into
}

// metadata returns an object with its metadata; nil if it is not known.
func (s *Set) metadata(kind schema.GroupVersionKind, namespace, name string) client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return s.lookUp(identity{kind.GroupKind(), namespace, name}, object)
}

// NamespaceLabels implements facts.Objects.
func (s *Set) NamespaceLabels(namespace string) (map[string]string, bool) {
	known := s.metadata(corev1.SchemeGroupVersion.WithKind(namespaceKind.Kind), "", namespace)
	if known == nil {
		return nil, false
	}
	labels := maps.Clone(known.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = namespace // API servers set it
	return labels, true
}

// Workload implements facts.Objects.
func (s *Set) Workload(of target.Key) *metav1.ObjectMeta {
	kind, wellKnown := of.WellKnown()
	if !wellKnown {
		return nil
	}
	known := s.metadata(kind, of.Namespace, of.Name)
	if known == nil {
		return nil
	}
	return &metav1.ObjectMeta{Labels: known.GetLabels(), Annotations: known.GetAnnotations()}
}

// Node implements facts.Objects.
func (s *Set) Node(name string) *corev1.Node {
	node, _ := s.lookUp(identity{kind: nodeKind, name: name}, &corev1.Node{}).(*corev1.Node)
	return node
}

// Nodes implements facts.Objects. Files without nodes do not know them.
func (s *Set) Nodes() (facts.NodeTotals, bool) {
	s.found.mu.Lock()
	defer s.found.mu.Unlock()
	if s.found.nodes == nil {
		list := corev1.NodeList{}
		if s.live != nil && s.live.List(context.Background(), &list) != nil {
			return facts.NodeTotals{}, false
		}
		for i := range s.Documents {
			if d := &s.Documents[i]; d.groupKind() == nodeKind {
				var node corev1.Node
				if d.decode(&node) == nil {
					list.Items = append(list.Items, node)
				}
			}
		}
		totals := facts.TotalsOf(list.Items)
		s.found.nodes = &totals
	}
	return *s.found.nodes, s.found.nodes.Count > 0
}

// Unknown says what does not count for lack of objects that were asked for, in order.
func (s *Set) Unknown() (out []string) {
	s.found.mu.Lock()
	defer s.found.mu.Unlock()
	var namespaces, workloads []string
	for of, object := range s.found.objects {
		switch {
		case object != nil || of.kind == nodeKind:
		case of.kind == namespaceKind:
			namespaces = append(namespaces, of.name)
		default:
			workloads = append(workloads, fmt.Sprintf("%s %s/%s", of.kind.Kind, of.namespace, of.name))
		}
	}
	switch slices.Sort(namespaces); len(namespaces) {
	case 0:
	case 1:
		out = append(out, fmt.Sprintf("the labels of namespace %s are not known, so overlays with a namespaceSelector do not apply to it", namespaces[0]))
	default:
		out = append(out, fmt.Sprintf("the labels of namespace %s and %d more are not known, so overlays with a namespaceSelector do not apply to them", namespaces[0], len(namespaces)-1))
	}
	const consequence = "are not known, so overlays with a workloadSelector do not apply to"
	switch slices.Sort(workloads); len(workloads) {
	case 0:
	case 1:
		out = append(out, fmt.Sprintf("the labels of %s %s it, and rules do not see them", workloads[0], consequence))
	default:
		out = append(out, fmt.Sprintf("the labels of %s and %d more workloads %s them, and rules do not see them", workloads[0], len(workloads)-1, consequence))
	}
	return out
}
