package target

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// wellKnown are the controllers whose pods are found without a scale subresource; by kind only, as
// in upstream.
var wellKnown = map[string]client.Object{
	"Deployment":            &appsv1.Deployment{},
	"DaemonSet":             &appsv1.DaemonSet{},
	"ReplicaSet":            &appsv1.ReplicaSet{},
	"StatefulSet":           &appsv1.StatefulSet{},
	"ReplicationController": &corev1.ReplicationController{},
	"Job":                   &batchv1.Job{},
	"CronJob":               &batchv1.CronJob{},
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

// WellKnown is the kind of a well-known controller; false = it is of a custom kind.
func (k Key) WellKnown() (schema.GroupVersionKind, bool) {
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind), wellKnown[k.Kind] != nil && k.builtIn()
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
	for _, kind := range slices.Sorted(maps.Keys(wellKnown)) {
		out = append(out, wellKnown[kind].DeepCopyObject().(client.Object))
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

// Unversioned is the key as VPAs are compared by it: without the apiVersion (UPSTREAM.md §4.2).
func (k Key) Unversioned() Key {
	k.APIVersion = ""
	return k
}

// Resolver looks controllers up. It is safe for concurrent use.
type Resolver struct {
	Client client.Client // reads the well-known kinds from a cache
	// Scales caches the scales of custom kinds; all parts of a process share one. Without it every
	// look-up reads them.
	Scales *Scales

	shared sharedSelectors
}

// controller is what the resolver needs of a controller object.
type controller struct {
	owners   []metav1.OwnerReference
	uid      types.UID // empty when it is not known
	created  time.Time // zero when it is not known
	replicas *int32    // desired replicas, read-only; nil for kinds without them, such as a Job
	refused  Refused

	scaleless bool // it is not found because its kind has no scale subresource

	// Of a well-known kind. matches is how it finds its pods; nil matches nothing.
	wellKnown bool
	matches   *metav1.LabelSelector
	version   string             // resourceVersion of the object
	template  []corev1.Container // of its pods, read-only

	selector labels.Selector // nil when it has none; see complete
}

// node owns pods that no controller made. It is never scalable.
const node = "Node"

// readKnown reads a controller of a well-known kind; found is false when it does not exist.
func (r *Resolver) readKnown(ctx context.Context, k Key) (c controller, found bool, err error) {
	object := wellKnown[k.Kind].DeepCopyObject().(client.Object)
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Name}, object)
	if apierrors.IsNotFound(err) {
		return controller{}, false, nil
	}
	if err != nil {
		return controller{}, false, fmt.Errorf("reading %s %s/%s: %w", k.Kind, k.Namespace, k.Name, err)
	}
	c = controller{wellKnown: true, owners: object.GetOwnerReferences(), uid: object.GetUID(), created: object.GetCreationTimestamp().Time, version: object.GetResourceVersion()}
	c.matches, c.replicas = podsOf(object)
	if template := OwnTemplate(object); template != nil {
		c.template = template.Spec.Containers
	}
	c.refused = refusedOf(object)
	return c, true, nil
}

// podsOf is how a well-known controller finds its pods, and how many it wants.
func podsOf(object client.Object) (matches *metav1.LabelSelector, replicas *int32) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return o.Spec.Selector, cmp.Or(o.Spec.Replicas, &oneReplica)
	case *appsv1.DaemonSet:
		return o.Spec.Selector, ptr.To(o.Status.DesiredNumberScheduled)
	case *appsv1.ReplicaSet:
		return o.Spec.Selector, cmp.Or(o.Spec.Replicas, &oneReplica)
	case *appsv1.StatefulSet:
		return o.Spec.Selector, cmp.Or(o.Spec.Replicas, &oneReplica)
	case *corev1.ReplicationController:
		if len(o.Spec.Selector) > 0 { // by default it is that of the template's labels
			matches = &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		}
		return matches, cmp.Or(o.Spec.Replicas, &oneReplica)
	case *batchv1.Job:
		return o.Spec.Selector, nil
	case *batchv1.CronJob:
		if template := o.Spec.JobTemplate.Spec.Template.Labels; len(template) > 0 {
			return &metav1.LabelSelector{MatchLabels: template}, nil
		}
	}
	return nil, nil
}

// PodTemplate is the template of the pods of a well-known controller, a part of the object; nil for anything else, and where a
// ReplicationController has none.
func PodTemplate(object any) *corev1.PodTemplateSpec {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *corev1.ReplicationController:
		return o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// OwnTemplate is the PodTemplate of a controller that makes pods itself; nil for those whose pods have another direct owner.
func OwnTemplate(object any) *corev1.PodTemplateSpec {
	switch object.(type) {
	case *appsv1.Deployment, *batchv1.CronJob:
		return nil
	}
	return PodTemplate(object)
}

// refusedOf is why the API server refuses new pods of a controller.
func refusedOf(object client.Object) Refused {
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == failedCreate {
				return Refused{said(c.Message), c.LastTransitionTime.Time}
			}
		}
	case *corev1.ReplicationController:
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.ReplicationControllerReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == failedCreate {
				return Refused{said(c.Message), c.LastTransitionTime.Time}
			}
		}
	}
	return Refused{}
}

// said bounds the words of others.
func said(text string) string { return strings.ToValidUTF8(text[:min(len(text), 1024)], "") }

// failedCreate is the reason of a condition ReplicaFailure for pods that cannot be created.
const failedCreate = "FailedCreate"

var oneReplica int32 = 1 // replicas by default

// complete makes the selector of a controller, which owners between pod and target do not need.
func (r *Resolver) complete(k Key, c *controller) (err error) {
	if !c.wellKnown {
		return nil
	}
	if c.selector, err = r.shared.of(k, c); err != nil {
		return permanent{fmt.Errorf("the selector of %s/%s: %w", k.Namespace, k.Name, err)}
	}
	return nil
}

// selects reports whether a controller's selector matches a pod's labels. matchLabels are compared
// directly: building a selector would take longer than the rest of a look-up.
func (r *Resolver) selects(k Key, c *controller, pod map[string]string) (bool, error) {
	if s := c.matches; s != nil && len(s.MatchExpressions) == 0 {
		for name, value := range s.MatchLabels {
			if has, ok := pod[name]; !ok || has != value {
				return false, nil
			}
		}
		return true, nil
	}
	if err := r.complete(k, c); err != nil {
		return false, err
	}
	return c.selector != nil && c.selector.Matches(labels.Set(pod)), nil
}
