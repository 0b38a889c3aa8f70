package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RuleOverlay is an operator's change to the rules, for the VerticalPodAutoscalers it matches.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Mode",type="string",JSONPath=".spec.mode"
// +kubebuilder:printcolumn:name="Priority",type="integer",JSONPath=".spec.priority"
// +kubebuilder:printcolumn:name="Accepted",type="string",JSONPath=".status.conditions[?(@.type=='Accepted')].status"
// +kubebuilder:printcolumn:name="Message",type="string",priority=1,JSONPath=".status.conditions[?(@.type=='Accepted')].message"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type RuleOverlay struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RuleOverlaySpec   `json:"spec"`
	Status RuleOverlayStatus `json:"status,omitempty"`

	// Unreadable says why a stored object could not be read; empty when it could. See UnmarshalJSON.
	Unreadable string `json:"-"`
}

// RuleOverlayList is a list of overlays.
//
// +kubebuilder:object:root=true
type RuleOverlayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RuleOverlay `json:"items"`
}

// RuleOverlaySpec says what changes and for which objects.
type RuleOverlaySpec struct {
	// What the overlay is for.
	Description string `json:"description,omitempty"`
	// Enforce (the default) changes what happens. Warn and Audit try the change beside what is enforced: the difference is
	// counted and recorded in events. Warn also returns it as a warning to whoever submits an object.
	// +kubebuilder:validation:Enum=Enforce;Warn;Audit
	// +kubebuilder:default=Enforce
	Mode string `json:"mode,omitempty"`
	// Overlays apply in ascending priority, and by name where it is equal; the last one wins.
	// +kubebuilder:default=0
	Priority int32 `json:"priority,omitempty"`
	// Pipeline that is changed, name or name@version; empty = all that are loaded.
	Pipeline string `json:"pipeline,omitempty"`
	// Which VerticalPodAutoscalers are meant; without it, all.
	Match *RuleOverlayMatch `json:"match,omitempty"`
	// What changes, in order.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Change []Change `json:"change"`
}

// RuleOverlayMatch selects VerticalPodAutoscalers; all parts must hold.
//
// +kubebuilder:validation:MinProperties=1
type RuleOverlayMatch struct {
	// Namespaces by name.
	// +kubebuilder:validation:MinItems=1
	Namespaces []string `json:"namespaces,omitempty"`
	// Namespaces that are left out.
	// +kubebuilder:validation:MinItems=1
	ExceptNamespaces []string `json:"exceptNamespaces,omitempty"`
	// Labels of the namespace. Where they are not known the overlay does not apply.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Kinds of workloads, as in spec.targetRef.kind.
	// +kubebuilder:validation:MinItems=1
	Kinds []string `json:"kinds,omitempty"`
	// Labels of the workload in spec.targetRef. Where they are not known, as of custom kinds, the overlay does not apply.
	WorkloadSelector *metav1.LabelSelector `json:"workloadSelector,omitempty"`
	// Labels of the VerticalPodAutoscaler.
	VPASelector *metav1.LabelSelector `json:"vpaSelector,omitempty"`
}

// Change has one of use, params, disable, replace, before, after and add; replace, before and after come with one of ruleSet,
// stage, rule, decision and validation.
type Change struct {
	// Pipeline, name or name@version, that decides for the VerticalPodAutoscalers that are matched and pin none. The other
	// changes of the overlay are to that pipeline.
	Use string `json:"use,omitempty"`
	// Parameters by name, ruleset.param or the param alone where one rule set has it.
	Params map[string]apiextensionsv1.JSON `json:"params,omitempty"`
	// Path of what is taken out: rule set, set/stage, set/stage/rule, set/decision or set/validation.
	Disable string `json:"disable,omitempty"`
	// Path of what is replaced.
	Replace string `json:"replace,omitempty"`
	// Path before which something is put.
	Before string `json:"before,omitempty"`
	// Path after which something is put.
	After string `json:"after,omitempty"`
	// Rule set, name@version, that runs last at its point.
	Add string `json:"add,omitempty"`
	// Digest that the path must have, so that a new version of the base cannot silently change what the overlay means.
	Digest string `json:"digest,omitempty"`

	// Rule set, name@version, that replace, before or after puts there.
	RuleSet string `json:"ruleSet,omitempty"`
	// Stage that is put there.
	Stage *Stage `json:"stage,omitempty"`
	// Rule that is put there.
	Rule *Rule `json:"rule,omitempty"`
	// Decision that is put there.
	Decision *Decision `json:"decision,omitempty"`
	// Validation that is put there.
	Validation *Validation `json:"validation,omitempty"`
}

// Stage is a list of rules run in order, once or for each item of a scope.
type Stage struct {
	// The stage in paths.
	Name string `json:"name,omitempty"`
	// A scope of the point, an axis, or a list of both.
	Each *apiextensionsv1.JSON `json:"each,omitempty"`
	// The stage runs only where this holds.
	When string `json:"when,omitempty"`
	// Values of the axis to leave out.
	Without []string `json:"without,omitempty"`
	// After a rule that fails, Keep (the default) goes on with the next rule.
	// +kubebuilder:validation:Enum=Keep;SkipStage
	OnError string `json:"onError,omitempty"`
	// Expressions by name.
	Variables map[string]string `json:"variables,omitempty"`
	// What runs, in order.
	Rules []Rule `json:"rules"`
}

// Rule changes facts.
type Rule struct {
	// The rule in paths, explanations and messages.
	Name string `json:"name,omitempty"`
	// The rule runs only where this holds.
	When string `json:"when,omitempty"`
	// Expressions by the field that they set.
	Set map[string]apiextensionsv1.JSON `json:"set,omitempty"`
	// A field, or a list of several.
	Unset *apiextensionsv1.JSON `json:"unset,omitempty"`
	// A text for explanations and annotations.
	Note string `json:"note,omitempty"`
	// Values of the stage's axis to leave out.
	Without []string `json:"without,omitempty"`
}

// Decision is one row of a first-match table.
type Decision struct {
	// The reason in events, logs and paths.
	Name string `json:"name,omitempty"`
	// The row counts only where this holds.
	When string `json:"when,omitempty"`
	// One of the point's outcomes.
	Do string `json:"do"`
	// Settled, Waiting or Misconfigured, for outcomes that leave things as they are.
	Class string `json:"class,omitempty"`
	// A text that explains the decision.
	Reason string `json:"reason,omitempty"`
	// The same as an expression.
	ReasonExpression string `json:"reasonExpression,omitempty"`
	// What has to happen for another decision.
	Until string `json:"until,omitempty"`
	// The same as an expression.
	UntilExpression string `json:"untilExpression,omitempty"`
}

// Validation is a condition that an object must fulfil.
type Validation struct {
	// The check in paths and messages.
	Name string `json:"name,omitempty"`
	// At most one axis, of whose values each is checked.
	Axes []string `json:"axes,omitempty"`
	// Values of the axis to leave out.
	Without []string `json:"without,omitempty"`
	// A path, which may name several places by braces, or a list of paths.
	At *apiextensionsv1.JSON `json:"at,omitempty"`
	// Admission, and Schema for checks that the CRD gets, too.
	Enforce []string `json:"enforce,omitempty"`
	// The check applies only where this holds.
	When string `json:"when,omitempty"`
	// What must hold.
	Expression string `json:"expression"`
	// What the user sees.
	Message string `json:"message,omitempty"`
	// The same as an expression.
	MessageExpression string `json:"messageExpression,omitempty"`
	// A path below at that the message is about.
	FieldPath string `json:"fieldPath,omitempty"`
	// FieldValueInvalid (the default) or another reason of API servers.
	Reason string `json:"reason,omitempty"`
	// Deny (the default), or Warn: accept the object and warn the user.
	// +kubebuilder:validation:Enum=Deny;Warn
	Severity string `json:"severity,omitempty"`
}

// RuleOverlayStatus says whether the overlay is in use.
type RuleOverlayStatus struct {
	// The metadata.generation that the conditions are about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Accepted is true when the overlay fits the rules that are loaded. When it is false the message has every fault, and
	// the last accepted version, if there was one since celvpa started, stays in use.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionAccepted is the condition type that reports whether an overlay is in use as written.
const ConditionAccepted = "Accepted"
