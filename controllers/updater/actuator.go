package updater

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podpatch"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Actuator changes pods in the cluster.
type Actuator struct {
	Client   client.Client
	Recorder events.EventRecorder
}

// Evict asks the API server to evict a pod; a disruption budget may refuse.
func (a Actuator) Evict(ctx context.Context, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, verdict engine.Verdict) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := a.Client.SubResource("eviction").Create(ctx, pod.DeepCopy(), eviction); err != nil {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	a.Recorder.Eventf(pod, v, corev1.EventTypeNormal, "EvictedByVPA", "Evict",
		"Pod was evicted to apply resource recommendation (%s)", verdict.Rule)
	a.Recorder.Eventf(v, pod, corev1.EventTypeNormal, "EvictedPod", "Evict",
		"Evicted pod %s to apply resource recommendation (%s)", pod.Name, verdict.Rule)
	return nil
}

// Resize sends the wanted resources through the pod's resize subresource and marks the pod as updated in place.
func (a Actuator) Resize(ctx context.Context, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, change facts.PodChange, verdict engine.Verdict) error {
	ops := podpatch.Resources(pod, change)
	if len(ops) == 0 {
		return errors.New("the rules asked for a resize and set nothing")
	}
	if err := a.patch(ctx, pod, ops, "resize"); err != nil {
		return fmt.Errorf("resizing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	a.Recorder.Eventf(pod, v, corev1.EventTypeNormal, "InPlaceResizedByVPA", "Resize",
		"Pod was resized in place to apply resource recommendation (%s)", verdict.Rule)
	var mark []jsonpatch.Operation
	if pod.Annotations == nil {
		mark = append(mark, podpatch.Add("/metadata/annotations", map[string]any{}))
	}
	mark = append(mark, podpatch.Annotate(podpatch.AnnotationInPlaceUpdated, "true"))
	if err := a.patch(ctx, pod, mark, ""); err != nil {
		a.Recorder.Eventf(pod, v, corev1.EventTypeWarning, "AnnotationFailed", "Resize",
			"The pod was resized but could not be marked so: %v", err)
	}
	return nil
}

func (a Actuator) patch(ctx context.Context, pod *corev1.Pod, ops []jsonpatch.Operation, subresource string) error {
	body, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	patch := client.RawPatch(types.JSONPatchType, body)
	if subresource == "" {
		return a.Client.Patch(ctx, pod.DeepCopy(), patch)
	}
	return a.Client.SubResource(subresource).Patch(ctx, pod.DeepCopy(), patch)
}
