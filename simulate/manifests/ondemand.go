package manifests

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// found are objects in no namespace that were asked for, by kind and name; nil = it is not known.
type found struct {
	mu      sync.Mutex
	objects map[named]client.Object
}

// lookUp returns an object that is in no namespace, of the files or, each once, of the cluster; nil if it is not known. It is safe
// for concurrent use.
func (s *Set) lookUp(kind schema.GroupKind, name string, into client.Object) client.Object {
	s.found.mu.Lock()
	defer s.found.mu.Unlock()
	key := named{kind, name}
	if object, asked := s.found.objects[key]; asked {
		return object
	}
	known := false
	if s.live != nil {
		known = s.live.Get(context.Background(), client.ObjectKey{Name: name}, into) == nil
	}
	for i := range s.Documents {
		if d := &s.Documents[i]; !known && d.groupKind() == kind && d.Name == name {
			known = d.decode(into) == nil
		}
	}
	if !known {
		into = nil
	}
	if s.found.objects == nil {
		s.found.objects = map[named]client.Object{}
	}
	s.found.objects[key] = into
	return into
}

// NamespaceLabels returns the labels of a namespace, and whether they are known.
func (s *Set) NamespaceLabels(namespace string) (map[string]string, bool) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(namespaceKind.Kind))
	known := s.lookUp(namespaceKind, namespace, object)
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

// Node returns a node; nil if it is not known.
func (s *Set) Node(name string) *corev1.Node {
	node, _ := s.lookUp(nodeKind, name, &corev1.Node{}).(*corev1.Node)
	return node
}

// UnknownNamespaces lists the namespaces that were asked for and are not known, by name.
func (s *Set) UnknownNamespaces() (out []string) {
	s.found.mu.Lock()
	defer s.found.mu.Unlock()
	for of, object := range s.found.objects {
		if of.kind == namespaceKind && object == nil {
			out = append(out, of.name)
		}
	}
	slices.Sort(out)
	return out
}
