package manifests

import (
	"context"

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
