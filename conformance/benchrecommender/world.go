package main

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// pods lists the pods by namespace.
func (b *bench) pods(ctx context.Context) (map[string][]string, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := b.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	out := map[string][]string{}
	for i := range list.Items {
		out[list.Items[i].Namespace] = append(out[list.Items[i].Namespace], list.Items[i].Name)
	}
	return out, nil
}

// vpa is that of a Deployment.
func (b *bench) vpa(i int) *vpav1.VerticalPodAutoscaler {
	key := b.Key(i)
	return &vpav1.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       vpav1.VerticalPodAutoscalerSpec{TargetRef: &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: key.Name}},
	}
}
