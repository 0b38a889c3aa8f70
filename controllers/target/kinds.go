package target

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// wellKnown are the controllers whose pods are found without a scale subresource; by kind only, as
// in upstream.
var wellKnown = map[string]func() client.Object{
	"Deployment":            func() client.Object { return &appsv1.Deployment{} },
	"DaemonSet":             func() client.Object { return &appsv1.DaemonSet{} },
	"ReplicaSet":            func() client.Object { return &appsv1.ReplicaSet{} },
	"StatefulSet":           func() client.Object { return &appsv1.StatefulSet{} },
	"ReplicationController": func() client.Object { return &corev1.ReplicationController{} },
	"Job":                   func() client.Object { return &batchv1.Job{} },
	"CronJob":               func() client.Object { return &batchv1.CronJob{} },
}

// builtIn distinguishes the well-known kinds from custom kinds of the same name, which no cache
// holds.
func (k Key) builtIn() bool {
	switch k.groupKind().Group {
	case corev1.GroupName, appsv1.GroupName, batchv1.GroupName:
		return true
	}
	return false
}

// PodsAlike reports whether all pods of a VPA's target come from one template, as those of the
// well-known kinds do. Pods of a custom kind may differ in their containers. It is true without a
// target.
func PodsAlike(v *vpav1.VerticalPodAutoscaler) bool {
	if v.Spec.TargetRef == nil {
		return true
	}
	_, known := wellKnown[v.Spec.TargetRef.Kind]
	return known
}

// WatchedKinds lists one object of each kind that a cache must hold before look-ups start.
func WatchedKinds() []client.Object {
	var out []client.Object
	for _, kind := range []string{"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"} {
		out = append(out, wellKnown[kind]())
	}
	return out
}

// Key names a controller object.
type Key struct {
	Namespace  string
	APIVersion string
	Kind       string
	Name       string
}

// String renders the key for messages.
func (k Key) String() string {
	return fmt.Sprintf("%s.%s/%s", k.APIVersion, k.Kind, k.Name)
}

// Resolver looks controllers up. It is safe for concurrent use.
type Resolver struct {
	Client client.Client // reads the well-known kinds from a cache
	// Scales caches the scales of custom kinds; all parts of a process share one. Without it every
	// look-up reads them.
	Scales *Scales
}

// controller is what the resolver needs of a controller object.
type controller struct {
	owners []metav1.OwnerReference
	uid    types.UID     // empty when it is not known
	object client.Object // of a well-known kind, read-only; nil for a scale, whose other fields are set

	selector labels.Selector // nil when it has none
	replicas *int32          // desired replicas; nil for kinds without them, such as a Job
}

// node owns pods that no controller made. It is never scalable.
const node = "Node"

// readKnown reads a controller of a well-known kind; found is false when it does not exist.
func (r *Resolver) readKnown(ctx context.Context, k Key, object client.Object) (c controller, found bool, err error) {
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Name}, object)
	if apierrors.IsNotFound(err) {
		return controller{}, false, nil
	}
	if err != nil {
		return controller{}, false, fmt.Errorf("reading %s %s/%s: %w", k.Kind, k.Namespace, k.Name, err)
	}
	return controller{owners: object.GetOwnerReferences(), uid: object.GetUID(), object: object}, true, nil
}

// complete fills in the selector and the replicas, which owners between pod and target do not need.
func (c *controller) complete() (err error) {
	switch o := c.object.(type) {
	case nil:
		return nil
	case *appsv1.Deployment:
		c.replicas = ptr.To(ptr.Deref(o.Spec.Replicas, 1))
	case *appsv1.DaemonSet:
		c.replicas = &o.Status.DesiredNumberScheduled
	case *appsv1.ReplicaSet:
		c.replicas = ptr.To(ptr.Deref(o.Spec.Replicas, 1))
	case *appsv1.StatefulSet:
		c.replicas = ptr.To(ptr.Deref(o.Spec.Replicas, 1))
	case *corev1.ReplicationController:
		c.replicas = ptr.To(ptr.Deref(o.Spec.Replicas, 1))
	}
	if c.selector, err = asSelector(selectorOf(c.object)); err != nil {
		return lasting{fmt.Errorf("the selector of %s/%s: %w", c.object.GetNamespace(), c.object.GetName(), err)}
	}
	return nil
}

// selects reports whether a controller's selector matches a pod's labels. matchLabels are compared
// directly: building a selector would take longer than the rest of a look-up.
func (c *controller) selects(pod map[string]string) (bool, error) {
	if s := selectorOf(c.object); s != nil && len(s.MatchExpressions) == 0 {
		for name, value := range s.MatchLabels {
			if has, ok := pod[name]; !ok || has != value {
				return false, nil
			}
		}
		return true, nil
	}
	if err := c.complete(); err != nil {
		return false, err
	}
	return c.selector != nil && c.selector.Matches(labels.Set(pod)), nil
}

// selectorOf is how a well-known controller finds its pods; nil matches nothing.
func selectorOf(object client.Object) *metav1.LabelSelector {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return o.Spec.Selector
	case *appsv1.DaemonSet:
		return o.Spec.Selector
	case *appsv1.ReplicaSet:
		return o.Spec.Selector
	case *appsv1.StatefulSet:
		return o.Spec.Selector
	case *corev1.ReplicationController:
		return &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
	case *batchv1.Job:
		return o.Spec.Selector
	case *batchv1.CronJob:
		if template := o.Spec.JobTemplate.Spec.Template.Labels; len(template) > 0 {
			return &metav1.LabelSelector{MatchLabels: template}
		}
	}
	return nil
}

// asSelector is LabelSelectorAsSelector without validating again what the API server has validated:
// that would take longer than the rest of a look-up.
func asSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil || len(s.MatchExpressions) > 0 {
		return metav1.LabelSelectorAsSelector(s)
	}
	return labels.SelectorFromValidatedSet(s.MatchLabels), nil
}
