// Package judge says what an API server of the lab's Kubernetes version makes of a pod, by its own
// code: defaults, validation and the LimitRanger admission plugin, with the feature gates as they are
// by default. It runs no rule of celvpa and starts no server; the tests beside it let celvpa change
// pods and have them judged.
//
// It lives in the lab's module because that one already requires k8s.io/kubernetes at the version of
// the lab's API server.
package judge

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // defaults and conversions
	"k8s.io/kubernetes/pkg/apis/core/validation"
	strategies "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
)

// Namespace is a namespace with its LimitRanges.
type Namespace struct {
	ranges []*corev1.LimitRange // as stored, by name; in a cluster their order is left to chance
}

// NewNamespace returns a namespace with LimitRanges as written. The error is the API server's, for one
// that it refuses.
func NewNamespace(ranges []corev1.LimitRange) (*Namespace, error) {
	out := &Namespace{}
	for i := range ranges {
		stored := ranges[i].DeepCopy()
		legacyscheme.Scheme.Default(stored)
		internal := &core.LimitRange{}
		if err := legacyscheme.Scheme.Convert(stored, internal, nil); err != nil {
			return nil, fmt.Errorf("converting LimitRange %s: %w", stored.Name, err)
		}
		if err := validation.ValidateLimitRange(internal).ToAggregate(); err != nil {
			return nil, fmt.Errorf("LimitRange %s is invalid: %w", stored.Name, err)
		}
		out.ranges = append(out.ranges, stored)
	}
	slices.SortFunc(out.ranges, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// LimitRanges are those of the namespace, as stored.
func (n *Namespace) LimitRanges() []corev1.LimitRange {
	out := make([]corev1.LimitRange, len(n.ranges))
	for i := range n.ranges {
		out[i] = *n.ranges[i].DeepCopy()
	}
	return out
}

// Refusal is why a pod is not created, or not resized.
type Refusal struct {
	Invalid field.ErrorList // from validation
	Ranges  []error         // from the LimitRanger plugin, one for each bound; nil where validation refuses
}

// Error is what the API server says.
func (r *Refusal) Error() string {
	if len(r.Invalid) > 0 {
		return "invalid: " + r.Invalid.ToAggregate().Error()
	}
	return "forbidden: " + utilerrors.NewAggregate(r.Ranges).Error()
}

// BeforeWebhooks is a new pod as webhooks see it: with defaults, those of LimitRanges too.
func (n *Namespace) BeforeWebhooks(pod *corev1.Pod) *corev1.Pod { return external(n.mutated(pod)) }

// Create is a new pod as it is stored. A pod that a webhook has patched goes through LimitRanger
// again, as where admission plugins are invoked a second time.
func (n *Namespace) Create(pod *corev1.Pod) (*corev1.Pod, *Refusal) {
	ctx := context.Background()
	internal := n.mutated(pod)
	strategies.Strategy.PrepareForCreate(ctx, internal)
	if invalid := strategies.Strategy.Validate(ctx, internal); len(invalid) > 0 {
		return nil, &Refusal{Invalid: invalid}
	}
	if refused := n.refuses(internal); refused != nil {
		return nil, refused
	}
	return external(internal), nil
}

// Resize is a stored pod after an update of its resize subresource.
func (n *Namespace) Resize(old, changed *corev1.Pod) (*corev1.Pod, *Refusal) {
	ctx := context.Background()
	before, after := internalOf(old), n.mutated(changed)
	strategies.ResizeStrategy.PrepareForUpdate(ctx, after, before)
	if invalid := strategies.ResizeStrategy.ValidateUpdate(ctx, after, before); len(invalid) > 0 {
		return nil, &Refusal{Invalid: invalid}
	}
	if refused := n.refuses(after); refused != nil {
		return nil, refused
	}
	return external(after), nil
}

var ranger = limitranger.DefaultLimitRangerActions{}

const pods = "pods"

// mutated is a pod after defaults and the LimitRanger plugin.
func (n *Namespace) mutated(pod *corev1.Pod) *core.Pod {
	out := internalOf(pod)
	for _, r := range n.ranges {
		must(ranger.MutateLimit(r, pods, out))
	}
	return out
}

func (n *Namespace) refuses(pod *core.Pod) *Refusal {
	for _, r := range n.ranges { // the plugin stops at the first LimitRange that refuses
		switch err := ranger.ValidateLimit(r, pods, pod).(type) {
		case nil:
		case utilerrors.Aggregate:
			return &Refusal{Ranges: err.Errors()}
		default:
			return &Refusal{Ranges: []error{err}}
		}
	}
	return nil
}

func internalOf(pod *corev1.Pod) *core.Pod {
	pod = pod.DeepCopy()
	legacyscheme.Scheme.Default(pod)
	out := &core.Pod{}
	must(legacyscheme.Scheme.Convert(pod, out, nil))
	return out
}

func external(pod *core.Pod) *corev1.Pod {
	out := &corev1.Pod{}
	must(legacyscheme.Scheme.Convert(pod, out, nil))
	return out.DeepCopy() // defaults share the digits of large quantities, which an answer in JSON does not
}

// must: conversions between the versions of a pod cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
