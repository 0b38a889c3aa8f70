package v1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VerticalPodAutoscaler sizes the pods of one workload from what they use.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=verticalpodautoscalers,singular=verticalpodautoscaler,shortName=vpa,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/kubernetes/pull/63797"
// +kubebuilder:printcolumn:name="Mode",type="string",JSONPath=".spec.updatePolicy.updateMode"
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.recommendation.containerRecommendations[0].target.cpu"
// +kubebuilder:printcolumn:name="Mem",type="string",JSONPath=".status.recommendation.containerRecommendations[0].target.memory"
// +kubebuilder:printcolumn:name="Provided",type="string",JSONPath=".status.conditions[?(@.type=='RecommendationProvided')].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="MinReplicas",type="integer",JSONPath=".spec.updatePolicy.minReplicas",priority=1
// +kubebuilder:printcolumn:name="OOMSeconds",type="integer",JSONPath=".spec.updatePolicy.evictAfterOOMSeconds",priority=1
type VerticalPodAutoscaler struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user asks for.
	Spec VerticalPodAutoscalerSpec `json:"spec"`
	// Status is what the recommender found.
	// +optional
	Status VerticalPodAutoscalerStatus `json:"status,omitempty"`

	// SpecUnreadable says which field of the stored spec or metadata could not be read and why.
	// Only targetRef, recommenders and identifying metadata are then set. See UnmarshalJSON.
	SpecUnreadable string `json:"-"`
	// StatusUnreadable says the same of the status, whose readable fields are set.
	StatusUnreadable string `json:"-"`
}

// VerticalPodAutoscalerList is a list of VerticalPodAutoscaler objects.
//
// +kubebuilder:object:root=true
type VerticalPodAutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []VerticalPodAutoscaler `json:"items"`
}

// VerticalPodAutoscalerSpec says which workload is sized, when changes are applied and within which bounds.
type VerticalPodAutoscalerSpec struct {
	// TargetRef names the controller whose pods are sized, e.g. a Deployment. It must be the topmost
	// controller that is well known or has a scale subresource. Without one nothing is sized.
	// +optional
	TargetRef *autoscaling.CrossVersionObjectReference `json:"targetRef,omitempty"`
	// UpdatePolicy says when recommendations reach the pods. Without it they are applied as with Recreate.
	// +optional
	UpdatePolicy *PodUpdatePolicy `json:"updatePolicy,omitempty"`
	// ResourcePolicy bounds the recommendations.
	// +optional
	ResourcePolicy *PodResourcePolicy `json:"resourcePolicy,omitempty"`
	// Recommenders names the recommender that serves this object; at most one. Without it the one named default counts.
	// +optional
	Recommenders []*VerticalPodAutoscalerRecommenderSelector `json:"recommenders,omitempty"`
	// StartupBoost raises CPU while a pod starts (gate CPUStartupBoost). A container policy's own boost wins.
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`
}

// VerticalPodAutoscalerRecommenderSelector names a recommender.
type VerticalPodAutoscalerRecommenderSelector struct {
	// Name is the value of the recommender's --recommender-name.
	Name string `json:"name"`
}

// UpdateMode says when a recommendation is applied to pods.
//
// +kubebuilder:validation:Enum=Off;Initial;Recreate;InPlaceOrRecreate;InPlace;Auto
type UpdateMode string

// The update modes.
const (
	// UpdateModeOff only writes recommendations.
	UpdateModeOff UpdateMode = "Off"
	// UpdateModeInitial applies them when pods are created.
	UpdateModeInitial UpdateMode = "Initial"
	// UpdateModeRecreate also evicts pods, so that new ones come with the new values.
	UpdateModeRecreate UpdateMode = "Recreate"
	// UpdateModeInPlaceOrRecreate resizes running pods and evicts those that cannot be resized.
	UpdateModeInPlaceOrRecreate UpdateMode = "InPlaceOrRecreate"
	// UpdateModeInPlace resizes running pods and never evicts (AEP-8818, gate InPlace).
	UpdateModeInPlace UpdateMode = "InPlace"
	// UpdateModeAuto is a deprecated name of Recreate.
	UpdateModeAuto UpdateMode = "Auto"
)

// PodUpdatePolicy says when and how pods are changed.
type PodUpdatePolicy struct {
	// UpdateMode is Off (only recommend), Initial (set new pods), Recreate (also evict running ones), InPlaceOrRecreate
	// (resize running pods, evict those that cannot be resized), InPlace (resize, never evict; AEP-8818, gate InPlace) or
	// Auto, a deprecated name of Recreate.
	// +optional
	UpdateMode *UpdateMode `json:"updateMode,omitempty"`
	// MinReplicas is how many live pods a workload must have before one is disrupted; greater than 0.
	// Without it the updater's --min-replicas counts.
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// EvictionRequirements must all hold for a pod to be changed.
	// +optional
	EvictionRequirements []*EvictionRequirement `json:"evictionRequirements,omitempty"`
	// EvictAfterOOMSeconds: a container that runs out of memory within this many seconds of its start makes its
	// pod eligible for an update at once; at least 1 (AEP-8026, gate PerVPAConfig). Without it the updater's
	// --evict-after-oom-threshold counts.
	// +optional
	EvictAfterOOMSeconds *int32 `json:"evictAfterOOMSeconds,omitempty"`
}

// EvictionChangeRequirement is a direction of change.
//
// +kubebuilder:validation:Enum=TargetHigherThanRequests;TargetLowerThanRequests
type EvictionChangeRequirement string

// The directions of EvictionRequirement.
const (
	// TargetHigherThanRequests: the target must exceed the request.
	TargetHigherThanRequests EvictionChangeRequirement = "TargetHigherThanRequests"
	// TargetLowerThanRequests: the target must be below the request.
	TargetLowerThanRequests EvictionChangeRequirement = "TargetLowerThanRequests"
)

// EvictionRequirement holds when at least one of its resources changes in the given direction.
type EvictionRequirement struct {
	// Resources are resource names, e.g. cpu and memory.
	Resources []corev1.ResourceName `json:"resources"`
	// ChangeRequirement is the direction in which the target must differ from the request.
	ChangeRequirement EvictionChangeRequirement `json:"changeRequirement"`
}

// PodResourcePolicy bounds recommendations for a pod and its containers.
type PodResourcePolicy struct {
	// ContainerPolicies apply to containers by name; the entry named * applies to those without one.
	// +optional
	// +patchMergeKey=containerName
	// +patchStrategy=merge
	ContainerPolicies []ContainerResourcePolicy `json:"containerPolicies,omitempty" patchStrategy:"merge" patchMergeKey:"containerName"`
	// PodPolicies bound the recommendation for the pod as a whole (AEP-7571, gate PodLevelResources).
	// +optional
	PodPolicies *PodPolicies `json:"podPolicies,omitempty"`
}

// ContainerScalingMode says whether a container is scaled at all.
//
// +kubebuilder:validation:Enum=Auto;Off
type ContainerScalingMode string

// The container scaling modes.
const (
	// ContainerScalingModeAuto scales the container.
	ContainerScalingModeAuto ContainerScalingMode = "Auto"
	// ContainerScalingModeOff leaves the container alone.
	ContainerScalingModeOff ContainerScalingMode = "Off"
)

// ContainerControlledValues says which values are set.
//
// +kubebuilder:validation:Enum=RequestsAndLimits;RequestsOnly
type ContainerControlledValues string

// The values that can be controlled.
const (
	// ContainerControlledValuesRequestsAndLimits sets requests and scales limits with them.
	ContainerControlledValuesRequestsAndLimits ContainerControlledValues = "RequestsAndLimits"
	// ContainerControlledValuesRequestsOnly sets requests and leaves limits alone.
	ContainerControlledValuesRequestsOnly ContainerControlledValues = "RequestsOnly"
)

// Mode is the update mode in effect: Recreate where none is written (UPSTREAM.md §1).
func (v *VerticalPodAutoscaler) Mode() string {
	return cmp.Or(v.WrittenMode(), string(UpdateModeRecreate))
}

// WrittenMode is the update mode as the spec has it; empty if none is written.
func (v *VerticalPodAutoscaler) WrittenMode() string {
	if p := v.Spec.UpdatePolicy; p != nil && p.UpdateMode != nil {
		return string(*p.UpdateMode)
	}
	return ""
}

// DefaultContainerResourcePolicy is the containerName of the policy for containers without their own.
const DefaultContainerResourcePolicy = "*"

// ContainerResourcePolicy bounds the recommendation for one container, or for all others when named *.
type ContainerResourcePolicy struct {
	// ContainerName is a container of the pod, or *.
	// +optional
	ContainerName string `json:"containerName,omitempty"`
	// Mode is Auto (the default) or Off.
	// +optional
	Mode *ContainerScalingMode `json:"mode,omitempty"`
	// MinAllowed is the minimum recommendation; 0 means no bound.
	// +optional
	MinAllowed corev1.ResourceList `json:"minAllowed,omitempty"`
	// MaxAllowed is the maximum recommendation; 0 means no bound. It wins over minAllowed.
	// +optional
	MaxAllowed corev1.ResourceList `json:"maxAllowed,omitempty"`
	// ControlledResources are cpu, memory or both (the default); an empty list controls nothing.
	// +optional
	ControlledResources *[]corev1.ResourceName `json:"controlledResources,omitempty"`
	// ControlledValues is RequestsAndLimits (the default) or RequestsOnly.
	// +optional
	ControlledValues *ContainerControlledValues `json:"controlledValues,omitempty"`
	// OOMBumpUpRatio multiplies a container's memory after an OOM kill; at least 1 (AEP-8026, gate PerVPAConfig). Without it
	// the recommender's --oom-bump-up-ratio counts.
	// +optional
	OOMBumpUpRatio *resource.Quantity `json:"oomBumpUpRatio,omitempty"`
	// OOMMinBumpUp is the minimum memory, in bytes, added after an OOM kill; at least 0 (AEP-8026, gate PerVPAConfig). Without
	// it the recommender's --oom-min-bump-up-bytes counts.
	// +optional
	OOMMinBumpUp *resource.Quantity `json:"oomMinBumpUp,omitempty"`
	// MemoryAggregationIntervalSeconds is the length of a window, which contributes its memory peak; at least 1 (AEP-8026,
	// gate PerVPAConfig). Without it the recommender's --memory-aggregation-interval counts.
	// +optional
	MemoryAggregationIntervalSeconds *int32 `json:"memoryAggregationIntervalSeconds,omitempty"`
	// MemoryAggregationInterval is memoryAggregationIntervalSeconds as a duration such as 12h (AEP-8026, gate PerVPAConfig).
	// +optional
	MemoryAggregationInterval *metav1.Duration `json:"memoryAggregationInterval,omitempty"`
	// MemoryAggregationIntervalCount is how many windows are remembered; at least 1 (AEP-8026, gate PerVPAConfig). Without it
	// the recommender's --memory-aggregation-interval-count counts.
	// +optional
	MemoryAggregationIntervalCount *int64 `json:"memoryAggregationIntervalCount,omitempty"`
	// StartupBoost raises this container's CPU while it starts (gate CPUStartupBoost).
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`
	// RequestToLimitRatio sets limits from requests instead of the pod's own proportion (AEP-8515, gate RequestToLimitRatio).
	// +optional
	RequestToLimitRatio *RequestToLimitRatio `json:"requestToLimitRatio,omitempty"`
	// RequestToLimitRatioAEP is requestToLimitRatio as its proposal spells it (AEP-8515, gate RequestToLimitRatio). The webhook
	// renames it.
	// +optional
	RequestToLimitRatioAEP *RequestToLimitRatio `json:"RequestToLimitRatio,omitempty"`
	// MemoryPerCPU is the memory, in bytes, that goes with one core; greater than 0 (AEP-8459, gate MemoryPerCPURatio).
	// +optional
	MemoryPerCPU *resource.Quantity `json:"memoryPerCPU,omitempty"`
}

// PodPolicies bound the recommendation for a pod as a whole (AEP-7571).
type PodPolicies struct {
	// ControlledResources are cpu, memory or both (the default).
	// +optional
	ControlledResources *[]corev1.ResourceName `json:"controlledResources,omitempty"`
	// ControlledValues is RequestsAndLimits (the default) or RequestsOnly.
	// +optional
	ControlledValues *ContainerControlledValues `json:"controlledValues,omitempty"`
	// MinAllowed is the minimum recommendation for the pod.
	// +optional
	MinAllowed corev1.ResourceList `json:"minAllowed,omitempty"`
	// MaxAllowed is the maximum recommendation for the pod.
	// +optional
	MaxAllowed corev1.ResourceList `json:"maxAllowed,omitempty"`
}

// ScaleType says how a value is derived from another.
//
// +kubebuilder:validation:Enum=Factor;Quantity
type ScaleType string

// The scale types.
const (
	// ScaleFactor multiplies.
	ScaleFactor ScaleType = "Factor"
	// ScaleQuantity adds.
	ScaleQuantity ScaleType = "Quantity"
)

// RequestToLimitRatio says how limits follow requests, by resource (AEP-8515).
type RequestToLimitRatio struct {
	// +optional
	CPU *ResourceRatio `json:"cpu,omitempty"`
	// +optional
	Memory *ResourceRatio `json:"memory,omitempty"`
}

// ResourceRatio gives the limit of one resource.
type ResourceRatio struct {
	// Type is Factor (limit = request × factor) or Quantity (limit = request + quantity).
	Type ScaleType `json:"type"`
	// Factor is at least 1; with type Factor only. It is scaled exactly from its decimal form.
	// +optional
	Factor *Decimal `json:"factor,omitempty"`
	// Quantity is added to the request; with type Quantity only.
	// +optional
	Quantity *resource.Quantity `json:"quantity,omitempty"`
}

// StartupBoost raises resources while a container starts.
type StartupBoost struct {
	// CPU says by how much and for how long.
	// +optional
	CPU *StartupBoostResource `json:"cpu,omitempty"`
}

// StartupBoostResource is the boost of one resource.
type StartupBoostResource struct {
	// Type is Factor (request × factor) or Quantity (request + quantity).
	Type ScaleType `json:"type"`
	// Factor is at least 1; with type Factor only.
	// +optional
	Factor *int32 `json:"factor,omitempty"`
	// Quantity is added to the request; with type Quantity only.
	// +optional
	Quantity *resource.Quantity `json:"quantity,omitempty"`
	// DurationSeconds is how long the boost lasts after the pod became ready; 0 (the default) ends it then.
	// +optional
	DurationSeconds *int32 `json:"durationSeconds,omitempty"`
}

// Decimal is a JSON number kept as it was written, so that it can be scaled exactly: 1.2 stays 1.2.
//
// +kubebuilder:validation:Type=number
type Decimal string

// MarshalJSON writes the number as it was read.
func (d Decimal) MarshalJSON() ([]byte, error) {
	if d == "" {
		return []byte("0"), nil
	}
	return []byte(d), nil
}

// UnmarshalJSON accepts only JSON numbers.
func (d *Decimal) UnmarshalJSON(data []byte) error {
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil || strings.HasPrefix(string(data), `"`) {
		return fmt.Errorf("%s is not a number", data)
	}
	*d = Decimal(n)
	return nil
}
