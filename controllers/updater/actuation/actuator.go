// Package actuation changes pods through the API server, in place or by eviction, and says what its
// answers mean. Whether to try again is up to the rules.
package actuation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podpatch"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Actuator changes pods in the cluster, and writes events about it for the pod and its VPA
// (UPSTREAM.md §5.4). It is safe for concurrent use.
type Actuator struct {
	// Client sends writes only, which share one limit, --kube-api-qps.
	Client   client.Client
	Recorder events.EventRecorder
}

// Evict asks the API server to evict a pod; a disruption budget may refuse. The UID is a
// precondition: a new pod of the same name, as in a StatefulSet, is not evicted.
func (a Actuator) Evict(ctx context.Context, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, verdict engine.Verdict) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	if err := a.Client.SubResource("eviction").Create(ctx, named(pod), eviction); err != nil {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	a.Recorder.Eventf(pod, v, corev1.EventTypeNormal, "EvictedByVPA", "Evict",
		"Pod was evicted to apply resource recommendation (%s)", verdict.Rule)
	a.Recorder.Eventf(v, pod, corev1.EventTypeNormal, "EvictedPod", "Evict",
		"Evicted pod %s to apply resource recommendation (%s)", pod.Name, verdict.Rule)
	return nil
}

// Resize sends the wanted resources of the pod and of all its containers through the resize
// subresource, and then updates the pod's annotations, which API servers do not accept with a
// resize. Where there is nothing to resize, it only removes the annotations of startup boosts that
// are over. An error means that the pod does not have what was asked for. A resized pod whose annotations could not be
// updated is reported in an event and by marked = false: Mark may be retried.
func (a Actuator) Resize(ctx context.Context, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, change facts.PodChange, verdict engine.Verdict) (marked bool, err error) {
	resources := podpatch.Resources(pod, change)
	if len(resources) == 0 {
		marks := slices.DeleteFunc(podpatch.Resized(pod, v.Name, change), func(op jsonpatch.Operation) bool { return op.Operation != "remove" })
		if len(marks) == 0 {
			return false, errors.New("the rules asked for a resize but set no amounts")
		}
		if _, err := a.patch(ctx, pod, marks, ""); err != nil {
			return false, fmt.Errorf("annotating pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return true, nil
	}
	answer, err := a.patch(ctx, pod, resources, "resize")
	if err == nil {
		err = overridden(answer, change)
	}
	if err != nil {
		return false, fmt.Errorf("resizing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	a.Recorder.Eventf(pod, v, corev1.EventTypeNormal, "InPlaceResizedByVPA", "Resize",
		"Pod was resized in place to apply resource recommendation (%s)", verdict.Rule)
	if err := a.Mark(ctx, pod, v.Name, change); err != nil && !apierrors.IsNotFound(err) {
		a.Recorder.Eventf(pod, v, corev1.EventTypeWarning, "AnnotationFailed", "Resize",
			"The pod was resized but could not be marked so: %v", err)
		return false, nil
	}
	return true, nil
}

// Mark updates the annotations of a pod after a resize.
func (a Actuator) Mark(ctx context.Context, pod *corev1.Pod, vpa string, change facts.PodChange) error {
	_, err := a.patch(ctx, pod, podpatch.Resized(pod, vpa, change), "")
	return err
}

// overridden is a refusal if the API server accepted a resize and something on the way changed it, such as a mutating webhook for
// pods/resize: sent again, it would be changed again. The spec counts; the status follows once the node has acted.
func overridden(answer *corev1.Pod, change facts.PodChange) error {
	if len(answer.Spec.Containers) != len(change.Containers) {
		return nil // an answer that says nothing of the pod
	}
	others := facts.Alterations(&corev1.Pod{Spec: answer.Spec}, change)
	if len(others) == 0 {
		return nil
	}
	other := others[0]
	return apierrors.NewForbidden(corev1.Resource("pods/resize"), answer.Name, fmt.Errorf(
		"a mutating webhook or policy changes the resize: %s of %s is %s in the answer, not %s", other.Field, cmp.Or(other.Container, "the pod"), cmp.Or(other.From, "unset"), other.To))
}

// patch returns the pod as the API server answers it.
func (a Actuator) patch(ctx context.Context, pod *corev1.Pod, ops []jsonpatch.Operation, subresource string) (answer *corev1.Pod, err error) {
	// A new pod of the same name may have other containers at these indexes.
	meant := jsonpatch.NewOperation("test", "/metadata/uid", pod.UID)
	body, err := json.Marshal(append([]jsonpatch.Operation{meant}, ops...))
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	answer, patch := named(pod), client.RawPatch(types.JSONPatchType, body)
	if subresource == "" {
		return answer, a.Client.Patch(ctx, answer, patch)
	}
	return answer, a.Client.SubResource(subresource).Patch(ctx, answer, patch)
}

// named is a pod with only its name: requests need no more, and the client decodes the response
// into it.
func named(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}
