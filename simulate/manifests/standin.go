package manifests

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WellKnown reports whether Kubernetes itself has a kind of workload, by kind alone as for VPA
// targets, and returns its group.
func WellKnown(kind string) (schema.GroupKind, bool) {
	for _, known := range workloadKinds {
		if known.Kind == kind {
			return known.GroupKind, true
		}
	}
	return schema.GroupKind{}, false
}

// StandIn is a workload missing from the manifests, with pods of these labels.
func StandIn(kind schema.GroupKind, namespace, name string, set map[string]string) (Workload, error) {
	w := Workload{GroupKind: kind, Namespace: namespace, Name: name}
	for _, known := range workloadKinds {
		if known.GroupKind != kind {
			continue
		}
		template := map[string]any{"metadata": map[string]any{"labels": set}}
		var selector any = map[string]any{"matchLabels": set}
		if kind.Kind == "ReplicationController" {
			selector = set
		}
		text, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name},
			"spec":     map[string]any{"selector": selector, "template": template, "jobTemplate": map[string]any{"spec": map[string]any{"template": template}}},
		})
		object := known.make()
		if err == nil {
			err = json.Unmarshal(text, object)
		}
		if err != nil {
			return w, fmt.Errorf("standing in for %s: %w", &w, err)
		}
		return newWorkload(kind, object), nil
	}
	w.Selector = labels.Set(set).String()
	w.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: set}}
	return w, nil
}
