// Package target finds the pods that a VPA selects and the VPA that controls a pod (UPSTREAM.md
// §2.4, §4.2).
package target

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// maxOwners bounds the walk from a pod to its topmost controller.
const maxOwners = 16

// Of is the key of a VPA's target.
func Of(v *vpav1.VerticalPodAutoscaler) Key {
	ref := v.Spec.TargetRef
	if ref == nil {
		return Key{Namespace: v.Namespace}
	}
	return Key{Namespace: v.Namespace, APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
}

// Unsupported is why a target cannot be used, in the words of condition ConfigUnsupported
// (UPSTREAM.md §2.6).
type Unsupported struct {
	Message string
	// Transient: there was no answer, and a retry may succeed (UPSTREAM.md Appendix B 10).
	Transient bool
	// Missing: the target does not exist. It may be in the middle of being deleted and created again.
	Missing bool
}

// Error returns the message.
func (u *Unsupported) Error() string { return u.Message }

func unsupported(format string, args ...any) *Unsupported {
	return &Unsupported{Message: fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) *Unsupported {
	return &Unsupported{Message: fmt.Sprintf(format, args...), Transient: true}
}

// Selector finds the pods of a VPA's target; otherwise it says why there are none: the target does
// not exist, cannot be read, or is not the topmost controller.
func (r *Resolver) Selector(ctx context.Context, v *vpav1.VerticalPodAutoscaler) (labels.Selector, *Unsupported) {
	return (&search{Resolver: r}).selector(ctx, v, "")
}

// selector is Selector in the way of a search. uid is that of the target where an owner reference
// gives it, else empty.
func (s *search) selector(ctx context.Context, v *vpav1.VerticalPodAutoscaler, uid types.UID) (labels.Selector, *Unsupported) {
	if v.Spec.TargetRef == nil {
		return nil, unsupported("Cannot read targetRef. Reason: targetRef not defined. If this is a v1beta1 object, switch to v1")
	}
	key := Of(v)
	c, found, err := s.get(ctx, key, question{as: asTarget, uid: uid})
	if err == nil && found {
		err = s.complete(key, &c)
	}
	if err != nil {
		return nil, &Unsupported{Message: fmt.Sprintf("Cannot read targetRef. Reason: %v", err), Transient: !isPermanent(err)}
	}
	switch {
	case found && c.wellKnown && c.matches == nil && key.Kind == "CronJob":
		return nil, unsupported("Cannot read targetRef. Reason: the pod template of %s %s/%s has no labels, so its pods cannot be found; add one to spec.jobTemplate.spec.template.metadata.labels, such as app: %s",
			key.Kind, key.Namespace, key.Name, key.Name)
	case found && c.wellKnown && c.matches == nil:
		return nil, unsupported("Cannot read targetRef. Reason: %s %s/%s has no selector; add spec.selector", key.Kind, key.Namespace, key.Name)
	case found && c.selector == nil:
		return nil, unsupported("Cannot read targetRef. Reason: resource %s/%s has an empty selector for scale sub-resource", key.Namespace, key.Name)
	case c.scaleless:
		return nil, unsupported("Cannot read targetRef. Reason: kind %s of %s has no scale subresource, so the pods of %s/%s cannot be found; name the workload that creates the pods, or add the subresource to the CustomResourceDefinition",
			key.Kind, key.APIVersion, key.Namespace, key.Name)
	case !found:
		return nil, &Unsupported{Message: fmt.Sprintf("Cannot read targetRef. Reason: %s %s/%s does not exist", key.Kind, key.Namespace, key.Name), Missing: true}
	}
	top, _, err := s.above(ctx, key, c)
	if err != nil {
		return nil, unknown("Error checking if target %s is a topmost well-known or scalable controller: %v", key, err)
	}
	if top != key {
		return nil, unsupported("The target %s has a parent controller but it should point to a topmost well-known or scalable controller", key)
	}
	return c.selector, nil
}

// Demand is what the direct owner of a group says about its pods.
type Demand struct {
	Replicas int       // that it asks for
	Counted  bool      // Replicas is its own number, not that of live pods
	Created  time.Time // the owner; zero = unknown
	Refused  Refused
}

// Refused is the API server's last refusal of a new pod, as a ReplicaSet or a ReplicationController
// reports it. Other kinds report none. Zero without one.
type Refused struct {
	Message string
	Since   time.Time
}

// Demand reads what the direct owner of a group says. An owner without a number of replicas, as a
// Job, gives live, the number of its live pods (UPSTREAM.md §5.4).
func (r *Resolver) Demand(ctx context.Context, k Key, live int) (Demand, error) {
	c, found, err := (&search{Resolver: r}).get(ctx, k, question{as: asCount})
	if err != nil {
		return Demand{}, err
	}
	if !found {
		return Demand{}, fmt.Errorf("%s %s/%s does not exist", k.Kind, k.Namespace, k.Name)
	}
	if c.replicas == nil {
		return Demand{Replicas: live, Created: c.created, Refused: c.refused}, nil
	}
	return Demand{Replicas: int(*c.replicas), Counted: true, Created: c.created, Refused: c.refused}, nil
}

// Template are the containers of the pod template of a pod's direct owner, with what they request and
// their limits. It is nil if that is not known: the pod has no owner, or one of a custom kind, or its
// owner is gone. Callers must not change it.
func (r *Resolver) Template(ctx context.Context, pod *corev1.Pod) ([]corev1.Container, error) {
	owner := ControllerOf(pod.OwnerReferences)
	k, _ := DirectOwner(pod)
	if _, known := wellKnown[k.Kind]; owner == nil || !known || !k.builtIn() {
		return nil, nil
	}
	c, found, err := r.readKnown(ctx, k)
	if err != nil || !found || c.uid != "" && owner.UID != "" && c.uid != owner.UID {
		return nil, err
	}
	return c.template, nil
}

// Scalable reports whether a controller of a custom kind has a scale subresource, in any version
// (UPSTREAM.md §2.4). After an error that is unknown.
func (r *Resolver) Scalable(ctx context.Context, k Key) (bool, error) {
	_, found, err := (&search{Resolver: r}).get(ctx, k, question{as: asOwner})
	return found, err
}

// ControllerOf is the owner that controls an object, nil without one. API servers permit one only;
// before their validation the last one counts, as in upstream (UPSTREAM.md §4.2).
func ControllerOf(owners []metav1.OwnerReference) *metav1.OwnerReference {
	for i := len(owners) - 1; i >= 0; i-- {
		if owners[i].Controller != nil && *owners[i].Controller {
			return &owners[i]
		}
	}
	return nil
}

// DirectOwner is the controller that owns a pod, e.g. a ReplicaSet; ok is false for a pod without
// one.
func DirectOwner(pod *corev1.Pod) (k Key, ok bool) {
	owner := ControllerOf(pod.OwnerReferences)
	if owner == nil {
		return Key{Namespace: pod.Namespace}, false
	}
	return Key{Namespace: pod.Namespace, APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name}, true
}

// Namespaces are those that a component serves.
type Namespaces struct {
	Only    string   // empty = all
	Ignored []string // never served
}

// Serve reports whether a namespace is served.
func (n Namespaces) Serve(namespace string) bool {
	if n.Only != "" && n.Only != namespace {
		return false
	}
	return !slices.Contains(n.Ignored, namespace)
}

// SplitNamespaces reads a comma-separated flag; empty parts are dropped.
func SplitNamespaces(list string) []string {
	var out []string
	for _, part := range strings.Split(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
