// Package v1 holds the Go types of autoscaling.k8s.io/v1: VerticalPodAutoscaler and
// VerticalPodAutoscalerCheckpoint. They are wire-compatible with upstream VPA and add the fields of
// AEP-7571, 8026, 8459, 8515 and 8818. Behaviour belongs in rules/.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.k8s.io
package v1
