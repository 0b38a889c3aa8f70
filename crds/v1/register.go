package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "autoscaling.k8s.io", Version: "v1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&VerticalPodAutoscaler{}, &VerticalPodAutoscalerList{},
		&VerticalPodAutoscalerCheckpoint{}, &VerticalPodAutoscalerCheckpointList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
