// Package v1alpha1 holds the Go types of rules.celvpa.dev/v1alpha1 that live in a cluster.
// RuleOverlays in rule files have the same meaning; see docs/rules.md.
//
// +kubebuilder:object:generate=true
// +groupName=rules.celvpa.dev
package v1alpha1
