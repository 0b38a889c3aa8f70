package manifests

import (
	"context"
	"errors"
	"fmt"

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

// errOffline is the answer to all that needs a cluster.
var errOffline = errors.New("there is no cluster: only manifests are read")

// Client lets code that works in a cluster look workloads up: it answers Get for those with an Object, and for the others that
// of the subresource scale, in any version. Whatever else it is asked for is an error.
func Client(workloads []Workload) client.Client {
	c := &inMemory{workloads: map[lookup]*Workload{}}
	for i := range workloads {
		w := &workloads[i]
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

// inMemory implements client.Client.
type inMemory struct {
	workloads map[lookup]*Workload
}

// Get answers for workloads with an Object.
func (c *inMemory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, c.Scheme())
	if err != nil {
		return fmt.Errorf("looking up %s: %w", key, err)
	}
	w := c.workloads[lookup{gvk.GroupKind(), key}]
	if w == nil || w.Object == nil {
		return notFound(gvk, key.Name)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.Object)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into)
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", w, err)
	}
	return nil
}

// SubResource answers for scales.
func (c *inMemory) SubResource(name string) client.SubResourceClient {
	return subResource{name: name, of: c}
}

type subResource struct {
	name string
	of   *inMemory
}

// Get answers for scales of workloads, as unstructured objects.
func (s subResource) Get(_ context.Context, object, into client.Object, _ ...client.SubResourceGetOption) error {
	answer, ok := into.(*unstructured.Unstructured)
	if s.name != "scale" || !ok {
		return errOffline
	}
	gvk := object.GetObjectKind().GroupVersionKind()
	w := s.of.workloads[lookup{gvk.GroupKind(), client.ObjectKeyFromObject(object)}]
	if w == nil {
		return notFound(gvk, object.GetName())
	}
	scale := &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: w.Selector}}
	scale.Spec.Replicas = ptr.Deref(w.Replicas, 0)
	scale.Namespace, scale.Name, scale.OwnerReferences = w.Namespace, w.Name, w.Owners
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scale)
	if err != nil {
		return fmt.Errorf("copying the scale of %s: %w", w, err)
	}
	answer.Object = fields
	return nil
}

func notFound(gvk schema.GroupVersionKind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, name)
}

// RESTMapper knows no kinds: versions make no difference here.
func (*inMemory) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

// Scheme knows the kinds of Kubernetes.
func (*inMemory) Scheme() *runtime.Scheme { return scheme.Scheme }

// GroupVersionKindFor answers for the kinds of Kubernetes.
func (c *inMemory) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(object, c.Scheme())
}

// The rest of client.Client needs a cluster.

func (*inMemory) IsObjectNamespaced(runtime.Object) (bool, error) { return false, errOffline }
func (*inMemory) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errOffline
}
func (*inMemory) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errOffline
}
func (*inMemory) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errOffline
}
func (*inMemory) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errOffline
}
func (*inMemory) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errOffline
}
func (*inMemory) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errOffline
}
func (*inMemory) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errOffline
}
func (c *inMemory) Status() client.SubResourceWriter { return subResource{name: "status", of: c} }

func (subResource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errOffline
}
func (subResource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errOffline
}
func (subResource) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errOffline
}
func (subResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errOffline
}
