package manifests

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine/faults"
)

// custom reads the custom objects that VPAs target, each once. No other custom owner of a pod
// matters: the scale of a custom resource has no ownerReferences, so the walk to the topmost
// controller ends at the first one, and a VPA that does not target it does not control the pod. Of a
// kind that may not be read, one error says so.
func (l *live) custom(ctx context.Context) error {
	var errs []error
	asked, refused := map[identity]bool{}, map[schema.GroupKind]bool{}
	for _, of := range l.set.targets() {
		gv, err := schema.ParseGroupVersion(of.APIVersion)
		kind := gv.WithKind(of.Kind)
		id := identity{kind.GroupKind(), of.Namespace, of.Name}
		if _, wellKnown := WellKnown(of.Kind); wellKnown || err != nil || of.Name == "" || asked[id] {
			continue // of a faulty reference the VPA's condition says more
		}
		asked[id] = true
		one := &unstructured.Unstructured{}
		one.SetGroupVersionKind(kind)
		err = l.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, one)
		switch {
		case err == nil:
			errs = append(errs, l.add(one))
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err): // as if it were missing from manifests
		case apierrors.IsForbidden(err) && refused[id.kind]:
		default:
			refused[id.kind] = refused[id.kind] || apierrors.IsForbidden(err)
			errs = append(errs, l.unread(kind, of.Namespace, of.Name, "get", err))
		}
	}
	return faults.Join(errs...)
}

// askScales finds out which custom kinds of targets have a scale subresource, where the client can
// tell.
func (l *live) askScales(ctx context.Context) {
	kinds, tells := l.Client.(target.Kinds)
	if !tells {
		return
	}
	for _, of := range l.set.targets() {
		kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
		if _, wellKnown := WellKnown(of.Kind); wellKnown {
			continue
		}
		if has, known := kinds.HasScale(ctx, kind); known {
			l.set.scaled[kind] = has
		}
	}
}

// scales asks whether the custom objects that own targets have a scale. Of a kind whose scales may not
// be read, one note says so.
func (l *live) scales(ctx context.Context) (notes []string, err error) {
	var errs []error
	refused := map[schema.GroupKind]bool{}
	resolver := &target.Resolver{Client: l.Client}
	for _, of := range l.set.aboveTargets() {
		kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
		scalable, err := resolver.Scalable(ctx, of)
		switch {
		case err == nil:
			l.set.scalable[identity{kind.GroupKind(), of.Namespace, of.Name}] = scalable
		case !apierrors.IsForbidden(err):
			errs = append(errs, fmt.Errorf("cannot tell whether the owner of a target can be scaled: %w", err))
		case !refused[kind.GroupKind()]:
			refused[kind.GroupKind()] = true
			notes = append(notes, fmt.Sprintf("the answer is without the scales of kind %s: %v; grant get on %s/scale", of.Kind, err, l.resource(kind)))
		}
	}
	return notes, faults.Join(errs...)
}

// aboveTargets are the custom objects that control targets of the well-known kinds, each once. Those
// that are targets themselves are left out: they count as scalable.
func (s *Set) aboveTargets() (out []target.Key) {
	known := map[identity]bool{}
	for _, of := range s.targets() {
		kind, wellKnown := WellKnown(of.Kind)
		if !wellKnown {
			kind = schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
		}
		known[identity{kind, of.Namespace, of.Name}] = true
	}
	for i := range s.Documents {
		d := &s.Documents[i]
		if _, wellKnown := WellKnown(d.Kind); !wellKnown || !known[identity{d.groupKind(), d.Namespace, d.Name}] {
			continue
		}
		var object struct {
			Metadata struct {
				OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
			} `json:"metadata"`
		}
		if d.decode(&object) != nil {
			continue // whoever uses the object reports it
		}
		owner, kind := CustomOwner(object.Metadata.OwnerReferences)
		if owner == nil || known[identity{kind, d.Namespace, owner.Name}] {
			continue
		}
		known[identity{kind, d.Namespace, owner.Name}] = true
		out = append(out, target.Key{Namespace: d.Namespace, APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name})
	}
	return out
}

// CustomOwner is the owner that controls an object and its kind, if that is a custom one, which may
// have a scale; else nil.
func CustomOwner(owners []metav1.OwnerReference) (*metav1.OwnerReference, schema.GroupKind) {
	owner := target.ControllerOf(owners)
	if owner == nil || owner.Kind == "" || owner.Kind == "Node" || owner.Name == "" {
		return nil, schema.GroupKind{}
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if _, wellKnown := WellKnown(owner.Kind); wellKnown || err != nil {
		return nil, schema.GroupKind{}
	}
	return owner, schema.GroupKind{Group: gv.Group, Kind: owner.Kind}
}

// Scalable reports whether an owner that CustomOwner returns has a scale subresource. known is false
// unless a cluster was asked, or the manifests have the kind's CustomResourceDefinition.
func (s *Set) Scalable(kind schema.GroupKind, namespace, name string) (scalable, known bool) {
	if scalable, known = s.scalable[identity{kind, namespace, name}]; known {
		return scalable, known
	}
	return s.HasScale(kind)
}

// targets are those of the VPAs, in their order. Those that cannot be read are left out.
func (s *Set) targets() (out []target.Key) {
	for i := range s.Documents {
		d := &s.Documents[i]
		if d.groupKind() != vpaKind {
			continue
		}
		var v struct {
			Spec struct {
				TargetRef metav1.OwnerReference `json:"targetRef"` // has its fields, too
			} `json:"spec"`
		}
		if d.decode(&v) == nil { // whoever uses the object reports it
			ref := v.Spec.TargetRef
			out = append(out, target.Key{Namespace: d.Namespace, APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name})
		}
	}
	return out
}
