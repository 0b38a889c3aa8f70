package manifests

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Client serves workloads to target.Resolver: Get for those with an Object, and the scale subresource in any version for
// the others, and for custom owners of workloads that are known to have one. It also gets and lists other objects.
func (s *Set) Client(workloads []Workload, objects ...client.Object) client.Client {
	s.readCRDs() // before any question, as several may be asked at once
	c := &inMemory{set: s, workloads: map[lookup]*Workload{}, objects: objects}
	add := func(w *Workload) {
		at := lookup{w.GroupKind, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}}
		if c.workloads[at] == nil {
			c.workloads[at] = w
		}
	}
	for i := range workloads {
		add(&workloads[i])
	}
	for i := range workloads {
		if w := &workloads[i]; w.Object != nil { // the scale of a custom one has no owners
			owner, kind := CustomOwner(w.OwnerReferences())
			if owner == nil {
				continue
			}
			if has, _ := s.HasScale(kind); has {
				add(&Workload{GroupKind: kind, Namespace: w.Namespace, Name: owner.Name})
			}
		}
	}
	return c
}

type lookup struct {
	kind schema.GroupKind
	key  client.ObjectKey
}

// inMemory implements the part of client.Client that target.Resolver and explanations call.
type inMemory struct {
	client.Client
	set       *Set
	workloads map[lookup]*Workload
	objects   []client.Object
}

// Get serves workloads with an Object, and other objects.
func (c *inMemory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, c.Scheme())
	if err != nil {
		return fmt.Errorf("looking up %s: %w", key, err)
	}
	var found client.Object
	if w := c.workloads[lookup{gvk.GroupKind(), key}]; w != nil {
		found = w.Object
	} else if i := slices.IndexFunc(c.objects, func(o client.Object) bool {
		return reflect.TypeOf(o) == reflect.TypeOf(into) && client.ObjectKeyFromObject(o) == key
	}); i >= 0 {
		found = c.objects[i]
	}
	if found == nil {
		return notFound(gvk, key.Name)
	}
	to, from := reflect.ValueOf(into).Elem(), reflect.ValueOf(found).Elem()
	if to.Type() != from.Type() {
		return fmt.Errorf("reading %s: it is a %T, not a %T", key, found, into)
	}
	to.Set(from) // without a copy, as a cache that target.Resolver reads
	return nil
}

// List serves other objects, selected by namespace, labels and name.
func (c *inMemory) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	items, err := meta.GetItemsPtr(into)
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	item := reflect.PointerTo(reflect.TypeOf(items).Elem().Elem())
	var out []runtime.Object
	for _, object := range c.objects {
		if reflect.TypeOf(object) == item && (o.Namespace == "" || o.Namespace == object.GetNamespace()) &&
			(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(object.GetLabels()))) &&
			(o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{"metadata.name": object.GetName()})) {
			out = append(out, object)
		}
	}
	return meta.SetList(into, out)
}

// SubResource serves only scales.
func (c *inMemory) SubResource(name string) client.SubResourceClient {
	return subResource{name: name, of: c}
}

type subResource struct {
	client.SubResourceClient
	name string
	of   *inMemory
}

// Get returns a workload's scale as an unstructured object. As an API server's of a custom resource,
// it has no ownerReferences.
func (s subResource) Get(_ context.Context, object, into client.Object, _ ...client.SubResourceGetOption) error {
	answer, ok := into.(*unstructured.Unstructured)
	if s.name != "scale" || !ok {
		return fmt.Errorf("reading subresource %s of %s: manifests have scales only", s.name, client.ObjectKeyFromObject(object))
	}
	gvk := object.GetObjectKind().GroupVersionKind()
	w := s.of.workloads[lookup{gvk.GroupKind(), client.ObjectKeyFromObject(object)}]
	if has, known := s.of.HasScale(context.Background(), gvk.GroupKind()); w == nil || known && !has {
		return notFound(gvk, object.GetName())
	}
	scale := &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: w.Selector}}
	scale.Spec.Replicas = ptr.Deref(w.Replicas, 0)
	scale.Namespace, scale.Name, scale.CreationTimestamp = w.Namespace, w.Name, w.created
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scale)
	if err != nil {
		return fmt.Errorf("copying the scale of %s: %w", w, err)
	}
	answer.Object = fields
	return nil
}

// HasScale implements target.Kinds.
func (c *inMemory) HasScale(_ context.Context, kind schema.GroupKind) (has, known bool) {
	return c.set.HasScale(kind)
}

func notFound(gvk schema.GroupVersionKind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, name)
}

// RESTMapper is empty: versions make no difference here.
func (*inMemory) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

// Scheme returns the Kubernetes scheme, with VPAs.
func (*inMemory) Scheme() *runtime.Scheme { return kinds }

var kinds = func() *runtime.Scheme {
	out := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(out))
	utilruntime.Must(vpav1.AddToScheme(out))
	return out
}()
