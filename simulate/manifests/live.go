package manifests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/target"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
)

// ClusterName is the file of what was read from a cluster.
const ClusterName = "the cluster"

// ErrNoVPAs is that of a cluster without the CRDs.
var ErrNoVPAs = errors.New("the cluster has no VerticalPodAutoscalers: install the CRDs with `celvpa crd | kubectl apply --server-side -f -`")

// pageSize is how many objects a list request asks for, as kubectl's.
const pageSize = 500

// Kinds that commands read of a cluster, besides RuleOverlays.
var (
	VPAKind        = vpaKind.WithVersion(vpav1.GroupVersion.Version)
	CheckpointKind = checkpointKind.WithVersion(vpav1.GroupVersion.Version)
	HPAKind        = hpaKind.WithVersion("v2")
	PDBKind        = pdbKind.WithVersion("v1")
	WorkloadKinds  = workloadVersions()
	PodKinds       = append(workloadVersions(), podKind.WithVersion("v1"), limitRangeKind.WithVersion("v1"))
	ruleKinds      = ruleOverlayKind.WithVersion(rulesv1alpha1.GroupVersion.Version)
)

func workloadVersions() (out []schema.GroupVersionKind) {
	for _, kind := range workloadKinds {
		out = append(out, kind.WithVersion("v1"))
	}
	return out
}

// live reads a cluster.
type live struct {
	client.Client
	namespace string
	set       *Set
	watch     func(what string, done, of int)
}

// Reader reads the objects of a cluster.
type Reader struct {
	Client    client.Client
	Namespace string                          // empty = all
	Optional  []schema.GroupVersionKind       // kinds that the answer can do without, if they may not be listed
	Watch     func(what string, done, of int) // receives the progress of each page, of = 0 where the end is unknown; nil = nobody
}

// Read reads the objects of these kinds in a namespace, or in all, and RuleOverlays. With pods it also reads the custom objects that VPAs target. The
// error lists what could not be read, and notes what the answer can do without; the set has the rest.
func (r Reader) Read(ctx context.Context, kinds ...schema.GroupVersionKind) (set *Set, notes []string, err error) {
	l := &live{Client: r.Client, namespace: r.Namespace, set: &Set{live: r.Client}, watch: r.Watch}
	var errs []error
	for _, kind := range append(slices.Clone(kinds), r.Optional...) {
		err := l.list(ctx, kind, l.namespace)
		lacking := meta.IsNoMatchError(err) || apierrors.IsForbidden(err)
		if kind == CheckpointKind && lacking {
			notes = append(notes, fmt.Sprintf("the answer is without checkpoints: %v", err))
			continue
		}
		if lacking && slices.Contains(r.Optional, kind) {
			notes = append(notes, fmt.Sprintf("the answer is without objects of kind %s: %v", kind.Kind, err))
			continue
		}
		if meta.IsNoMatchError(err) && kind == VPAKind {
			err = ErrNoVPAs
		}
		errs = append(errs, err)
	}
	switch err := l.list(ctx, ruleKinds, ""); {
	case meta.IsNoMatchError(err): // the CRD is not installed
	case apierrors.IsForbidden(err):
		notes = append(notes, fmt.Sprintf("the answer is without the RuleOverlays of the cluster: %v", err))
	default:
		errs = append(errs, err)
	}
	if slices.Contains(kinds, PodKinds[0]) {
		errs = append(errs, l.custom(ctx))
	}
	return l.set, notes, faults.Join(errs...)
}

// IsLive reports whether the set was read from a cluster: what it lacks is not there.
func (s *Set) IsLive() bool { return s.live != nil }

// list reads all objects of a kind, page by page.
func (l *live) list(ctx context.Context, kind schema.GroupVersionKind, namespace string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	read := 0
	for {
		err := l.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(list.GetContinue()))
		if err != nil {
			return l.unread(kind, namespace, "", "list", err)
		}
		for i := range list.Items {
			if err := l.add(&list.Items[i]); err != nil {
				return err
			}
		}
		if read += len(list.Items); l.watch != nil {
			l.watch("reading kind "+kind.Kind, read, read+int(ptr.Deref(list.GetRemainingItemCount(), 0)))
		}
		if list.GetContinue() == "" {
			return nil
		}
	}
}

func (l *live) add(one *unstructured.Unstructured) error {
	one.SetManagedFields(nil)
	text, err := one.MarshalJSON()
	if err != nil {
		return fmt.Errorf("reading %s %s/%s: %w", one.GetKind(), one.GetNamespace(), one.GetName(), err)
	}
	found, errs := objects(object{at: Place{File: ClusterName}, json: text})
	l.set.Documents = append(l.set.Documents, found...)
	return faults.Join(errs...)
}

// unread says what could not be read, where, and what to do.
func (l *live) unread(kind schema.GroupVersionKind, namespace, name, verb string, err error) error {
	if meta.IsNoMatchError(err) {
		return err
	}
	resource := l.resource(kind)
	what, where := resource, "in namespace "+namespace
	if name != "" {
		what += " " + name
	}
	switch {
	case kind == ruleKinds:
		where = "of the cluster"
	case namespace == "":
		where = "in all namespaces"
	}
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("cannot read %s %s: %w", what, where, err)
	}
	wayOut := "; grant " + verb + " on " + resource
	switch {
	case kind == ruleKinds:
	case l.namespace == "":
		wayOut += ", or read one namespace with -n"
	default:
		wayOut += " there, or read another namespace with -n"
	}
	return fmt.Errorf("cannot read %s %s: %w%s", what, where, err, wayOut)
}

// resource is the name of a kind in permissions, e.g. deployments.apps.
func (l *live) resource(kind schema.GroupVersionKind) string {
	if mapping, err := l.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil {
		return mapping.Resource.GroupResource().String()
	}
	return strings.ToLower(kind.Kind) + "s"
}

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
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		err = l.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, object)
		switch {
		case err == nil:
			errs = append(errs, l.add(object))
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err): // as if it were missing from manifests
		case apierrors.IsForbidden(err) && refused[id.kind]:
		default:
			refused[id.kind] = refused[id.kind] || apierrors.IsForbidden(err)
			errs = append(errs, l.unread(kind, of.Namespace, of.Name, "get", err))
		}
	}
	return faults.Join(errs...)
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
