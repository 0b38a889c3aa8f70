package v1

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VerticalPodAutoscalerStatus is what the recommender found.
type VerticalPodAutoscalerStatus struct {
	// Recommendation is absent until there is one.
	// +optional
	Recommendation *RecommendedPodResources `json:"recommendation,omitempty"`
	// Conditions say whether and why there is a recommendation.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []VerticalPodAutoscalerCondition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// ObservedGeneration is the metadata.generation that the status was made for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
}

// RecommendedPodResources are the recommendations for a workload's pods.
type RecommendedPodResources struct {
	// ContainerRecommendations, one a container, sorted by name.
	// +optional
	ContainerRecommendations []RecommendedContainerResources `json:"containerRecommendations,omitempty"`
	// PodRecommendation is for pods with pod-level resources only (AEP-7571, gate PodLevelResources).
	// +optional
	PodRecommendation *RecommendedResources `json:"podRecommendation,omitempty"`
}

// RecommendedContainerResources is the recommendation for one container.
type RecommendedContainerResources struct {
	// +optional
	ContainerName string `json:"containerName,omitempty"`
	// Target is what the container should request.
	Target corev1.ResourceList `json:"target"`
	// LowerBound: below it the container is likely short.
	// +optional
	LowerBound corev1.ResourceList `json:"lowerBound,omitempty"`
	// UpperBound: above it resources are likely wasted.
	// +optional
	UpperBound corev1.ResourceList `json:"upperBound,omitempty"`
	// UncappedTarget is the target before minAllowed, maxAllowed and global maximums.
	// +optional
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`
}

// RecommendedResources is the recommendation for a pod as a whole; fields as for containers.
type RecommendedResources struct {
	Target corev1.ResourceList `json:"target"`
	// +optional
	LowerBound corev1.ResourceList `json:"lowerBound,omitempty"`
	// +optional
	UpperBound corev1.ResourceList `json:"upperBound,omitempty"`
	// +optional
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`
}

// VerticalPodAutoscalerConditionType names a condition.
type VerticalPodAutoscalerConditionType string

// The conditions (UPSTREAM.md §2.6), and celvpa's own: RulesApplied and UpdatesHaveNoEffect.
const (
	RecommendationProvided VerticalPodAutoscalerConditionType = "RecommendationProvided"
	LowConfidence          VerticalPodAutoscalerConditionType = "LowConfidence"
	NoPodsMatched          VerticalPodAutoscalerConditionType = "NoPodsMatched"
	FetchingHistory        VerticalPodAutoscalerConditionType = "FetchingHistory"
	ConfigDeprecated       VerticalPodAutoscalerConditionType = "ConfigDeprecated"
	ConfigUnsupported      VerticalPodAutoscalerConditionType = "ConfigUnsupported"
	// RulesApplied names the pipeline (reason) and its digest (message) behind the recommendation.
	RulesApplied VerticalPodAutoscalerConditionType = "RulesApplied"
	// UpdatesHaveNoEffect says that evictions are paused because replacement pods kept the old
	// resources or were not created. Its reason is the rule. It exists only while it is True, and only the updater writes it.
	UpdatesHaveNoEffect VerticalPodAutoscalerConditionType = "UpdatesHaveNoEffect"
)

// VerticalPodAutoscalerCondition is one observation about a VerticalPodAutoscaler.
type VerticalPodAutoscalerCondition struct {
	// Type is RecommendationProvided, LowConfidence, NoPodsMatched, ConfigUnsupported, RulesApplied or UpdatesHaveNoEffect.
	Type VerticalPodAutoscalerConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastTransitionTime is when the status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is the cause in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is the cause for people.
	// +optional
	Message string `json:"message,omitempty"`
	// ObservedGeneration is the metadata.generation that the condition is about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Instant is a time to the nanosecond. metav1.Time is written in whole seconds.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Format=date-time
type Instant struct {
	metav1.Time `json:"-"`
}

// NewInstant is a time; nil for the zero time.
func NewInstant(t time.Time) *Instant {
	if t.IsZero() {
		return nil
	}
	return &Instant{metav1.NewTime(t.UTC())}
}

// At is the time; zero for nil.
func (t *Instant) At() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time.Time
}

// MarshalJSON writes the fraction of a second only if there is one.
func (t Instant) MarshalJSON() ([]byte, error) { return json.Marshal(t.ToUnstructured()) }

// ToUnstructured is the value of the JSON.
func (t Instant) ToUnstructured() any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
