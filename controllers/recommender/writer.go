package recommender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Writer sends what a recommender writes, one request each unless a checkpoint is new.
type Writer struct {
	Live client.Client // not cached
}

// Status replaces the status of a VPA.
func (w Writer) Status(ctx context.Context, vpa client.ObjectKey, status *vpav1.VerticalPodAutoscalerStatus) error {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": status}})
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", vpa, err)
	}
	return w.Live.Status().Patch(ctx, headOf("VerticalPodAutoscaler", vpa.Namespace, vpa.Name), client.RawPatch(types.JSONPatchType, patch))
}

// Checkpoint replaces the status of the checkpoint of a VPA's container, or creates it. Names of VPAs
// and containers may collide, as a-b with c and a with b-c do: the first one keeps the checkpoint.
func (w Writer) Checkpoint(ctx context.Context, vpa client.ObjectKey, container string, status vpav1.VerticalPodAutoscalerCheckpointStatus) error {
	object := &vpav1.VerticalPodAutoscalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: vpa.Namespace, Name: vpa.Name + "-" + container},
		Spec:       vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: vpa.Name, ContainerName: container},
		Status:     status,
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/spec/vpaObjectName", "value": vpa.Name},
		{"op": "test", "path": "/spec/containerName", "value": container},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return fmt.Errorf("encoding checkpoint %s: %w", object.Name, err)
	}
	err = w.Live.Patch(ctx, headOf("VerticalPodAutoscalerCheckpoint", object.Namespace, object.Name), client.RawPatch(types.JSONPatchType, patch))
	switch {
	case apierrors.IsNotFound(err):
		err = w.Live.Create(ctx, object)
	case err != nil && ctx.Err() == nil && !outOfTime(err):
		if other := w.ownerOf(ctx, object); other != "" {
			return fmt.Errorf("checkpoint %s/%s is that of %s: rename one of the two VPAs or containers; otherwise this history is lost on restart", object.Namespace, object.Name, other)
		}
	}
	if err != nil {
		return fmt.Errorf("writing checkpoint %s/%s: %w", object.Namespace, object.Name, err)
	}
	return nil
}

// ownerOf is whose history a checkpoint holds when it is not that of the VPA and container in
// object; else empty.
func (w Writer) ownerOf(ctx context.Context, object *vpav1.VerticalPodAutoscalerCheckpoint) string {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(vpav1.GroupVersion.WithKind("VerticalPodAutoscalerCheckpoint"))
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(object), found); err != nil {
		return ""
	}
	vpa, container := subjectOf(found)
	if vpa == object.Spec.VPAObjectName && container == object.Spec.ContainerName {
		return ""
	}
	return fmt.Sprintf("VPA %q, container %q", vpa, container)
}

// subjectOf is whose history a checkpoint holds.
func subjectOf(checkpoint *unstructured.Unstructured) (vpa, container string) {
	vpa, _, _ = unstructured.NestedString(checkpoint.Object, "spec", "vpaObjectName")
	container, _, _ = unstructured.NestedString(checkpoint.Object, "spec", "containerName")
	return vpa, container
}

// headOf names an object to patch. The answer is its metadata only, which is not read.
func headOf(kind, namespace, name string) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	out.SetGroupVersionKind(vpav1.GroupVersion.WithKind(kind))
	return out
}

// outOfTime reports whether a request missed its deadline, be it in the client's own rate limit.
func outOfTime(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "client rate limiter Wait")
}
