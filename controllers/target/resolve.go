package target

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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

// Unsupported is why a target cannot be used, in the words of condition ConfigUnsupported (UPSTREAM.md §2.6).
type Unsupported struct {
	Message string
	// Transient: the answer could not be had; it may be fine in a moment (UPSTREAM.md Appendix B 10).
	Transient bool
}

// Error returns the message.
func (u *Unsupported) Error() string { return u.Message }

func unsupported(format string, args ...any) *Unsupported {
	return &Unsupported{Message: fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) *Unsupported {
	return &Unsupported{Message: fmt.Sprintf(format, args...), Transient: true}
}

// Selector finds the pods of a VPA's target; otherwise it says why there are none: the target does not exist, cannot be
// read, or is not the topmost controller.
func (r *Resolver) Selector(ctx context.Context, v *vpav1.VerticalPodAutoscaler) (labels.Selector, *Unsupported) {
	if v.Spec.TargetRef == nil {
		return nil, unsupported("Cannot read targetRef. Reason: targetRef not defined. If this is a v1beta1 object, switch to v1")
	}
	key := Of(v)
	c, found, err := r.get(ctx, key, asTarget)
	if err != nil {
		return nil, &Unsupported{Message: fmt.Sprintf("Cannot read targetRef. Reason: %v", err), Transient: !isLasting(err)}
	}
	if found && c.selector == nil {
		return nil, unsupported("Cannot read targetRef. Reason: resource %s/%s has an empty selector for scale sub-resource", key.Namespace, key.Name)
	}
	if !found {
		return nil, unsupported("Cannot read targetRef. Reason: %s %s/%s does not exist", key.Kind, key.Namespace, key.Name)
	}
	top, err := r.above(ctx, key, c)
	if err != nil {
		return nil, unknown("Error checking if target %s is a topmost well-known or scalable controller: %v", key, err)
	}
	if top != key {
		return nil, unsupported("The target %s has a parent controller but it should point to a topmost well-known or scalable controller", key)
	}
	return c.selector, nil
}

// Replicas is how many pods the direct owner of a group asks for. An owner without such a number, as a Job, gives live,
// the number of its live pods (UPSTREAM.md §5.4).
func (r *Resolver) Replicas(ctx context.Context, k Key, live int) (int, error) {
	c, found, err := r.get(ctx, k, asCount)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("%s %s/%s does not exist", k.Kind, k.Namespace, k.Name)
	}
	if c.replicas == nil {
		return live, nil
	}
	return int(*c.replicas), nil
}

// topmost is the highest controller above and with start that is well known or scalable. start has to exist.
func (r *Resolver) topmost(ctx context.Context, start Key) (Key, error) {
	c, found, err := r.get(ctx, start, asOwner)
	if err != nil {
		return Key{}, err
	}
	if !found {
		return Key{}, fmt.Errorf("%s %s/%s does not exist or cannot be scaled", start.Kind, start.Namespace, start.Name)
	}
	return r.above(ctx, start, c)
}

// above walks owner references upwards from a controller that has been read.
func (r *Resolver) above(ctx context.Context, top Key, c controller) (Key, error) {
	start := top
	for range maxOwners {
		owner := ControllerOf(c.owners)
		if owner == nil {
			return top, nil
		}
		at := Key{Namespace: top.Namespace, APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name}
		above, found, err := r.get(ctx, at, asOwner)
		if err != nil {
			return Key{}, err // whether the parent counts is not known, and guessing would hide the pod from its VPA
		}
		if !found {
			return top, nil
		}
		top, c = at, above
	}
	return Key{}, fmt.Errorf("the owners of %s go round in circles", start)
}

// ControllerOf is the owner that controls an object, nil when none does.
func ControllerOf(owners []metav1.OwnerReference) *metav1.OwnerReference {
	for i := range owners {
		if owners[i].Controller != nil && *owners[i].Controller {
			return &owners[i]
		}
	}
	return nil
}

// DirectOwner is the controller that owns a pod, e.g. a ReplicaSet; ok is false for a pod without one.
func DirectOwner(pod *corev1.Pod) (k Key, ok bool) {
	owner := ControllerOf(pod.OwnerReferences)
	if owner == nil {
		return Key{Namespace: pod.Namespace}, false
	}
	return Key{Namespace: pod.Namespace, APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name}, true
}

// ControllingVPA is the VPA that a pod belongs to, nil when there is none. Among several that match, the oldest
// wins, then the name (UPSTREAM.md §4.2).
func (r *Resolver) ControllingVPA(ctx context.Context, pod *corev1.Pod, candidates []*vpav1.VerticalPodAutoscaler) (*vpav1.VerticalPodAutoscaler, error) {
	owner, ok := DirectOwner(pod)
	if !ok || owner.Kind == node {
		return nil, nil
	}
	top, err := r.topmost(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("finding the topmost controller of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var best *vpav1.VerticalPodAutoscaler
	for _, v := range candidates {
		of := Of(v)
		if of.Namespace != top.Namespace || of.Kind != top.Kind || of.Name != top.Name {
			continue
		}
		selector, why := r.Selector(ctx, v)
		if why != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if best == nil || older(v, best) {
			best = v
		}
	}
	return best, nil
}

func older(a, b *vpav1.VerticalPodAutoscaler) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// Namespaces says which namespaces a component serves.
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
