// Package v1alpha1 holds the Go types of rules.celvpa.dev/v1alpha1 that live in a cluster: RuleOverlay. The same document
// in a rule file means the same; docs/rules.md is the language.
//
// +kubebuilder:object:generate=true
// +groupName=rules.celvpa.dev
package v1alpha1
