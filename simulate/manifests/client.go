package manifests

import (
	"context"
	"fmt"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Client serves workloads to target.Resolver: Get for those with an Object, the scale subresource
// in any version for the others. Nothing else works.
func Client(workloads []Workload) client.Client {
	c := &inMemory{workloads: map[lookup]*Workload{}, unscalable: map[schema.GroupKind]bool{}}
	for i := range workloads {
		w := &workloads[i]
		c.unscalable[w.GroupKind] = c.unscalable[w.GroupKind] || w.unscalable
		at := lookup{w.GroupKind, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}}
		if c.workloads[at] == nil {
			c.workloads[at] = w
		}
	}
	return c
}

type lookup struct {
	kind schema.GroupKind
	key  client.ObjectKey
}

// inMemory implements the part of client.Client that target.Resolver calls.
type inMemory struct {
	client.Client
	workloads  map[lookup]*Workload
	unscalable map[schema.GroupKind]bool
}

// Get serves workloads with an Object.
func (c *inMemory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, c.Scheme())
	if err != nil {
		return fmt.Errorf("looking up %s: %w", key, err)
	}
	w := c.workloads[lookup{gvk.GroupKind(), key}]
	if w == nil || w.Object == nil {
		return notFound(gvk, key.Name)
	}
	to, from := reflect.ValueOf(into).Elem(), reflect.ValueOf(w.Object).Elem()
	if to.Type() != from.Type() {
		return fmt.Errorf("reading %s: it is a %T, not a %T", w, w.Object, into)
	}
	to.Set(from) // without a copy, as a cache that target.Resolver reads
	return nil
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
	if w == nil || w.unscalable {
		return notFound(gvk, object.GetName())
	}
	scale := &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: w.Selector}}
	scale.Spec.Replicas = ptr.Deref(w.Replicas, 0)
	scale.Namespace, scale.Name = w.Namespace, w.Name
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scale)
	if err != nil {
		return fmt.Errorf("copying the scale of %s: %w", w, err)
	}
	answer.Object = fields
	return nil
}

// HasScale implements target.Kinds for the kinds of unscalable workloads.
func (c *inMemory) HasScale(_ context.Context, kind schema.GroupKind) (has, known bool) {
	return false, c.unscalable[kind]
}

func notFound(gvk schema.GroupVersionKind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, name)
}

// RESTMapper is empty: versions make no difference here.
func (*inMemory) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

// Scheme returns the Kubernetes scheme.
func (*inMemory) Scheme() *runtime.Scheme { return scheme.Scheme }
