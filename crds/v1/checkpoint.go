package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// VerticalPodAutoscalerCheckpoint keeps the usage history of one container across restarts of the recommender.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=verticalpodautoscalercheckpoints,singular=verticalpodautoscalercheckpoint,shortName=vpacheckpoint,scope=Namespaced
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/kubernetes/pull/63797"
type VerticalPodAutoscalerCheckpoint struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +optional
	Spec VerticalPodAutoscalerCheckpointSpec `json:"spec,omitempty"`
	// +optional
	Status VerticalPodAutoscalerCheckpointStatus `json:"status,omitempty"`
}

// VerticalPodAutoscalerCheckpointList is a list of VerticalPodAutoscalerCheckpoint objects.
//
// +kubebuilder:object:root=true
type VerticalPodAutoscalerCheckpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []VerticalPodAutoscalerCheckpoint `json:"items"`
}

// VerticalPodAutoscalerCheckpointSpec says whose history it is.
type VerticalPodAutoscalerCheckpointSpec struct {
	// +optional
	VPAObjectName string `json:"vpaObjectName,omitempty"`
	// +optional
	ContainerName string `json:"containerName,omitempty"`
}

// VerticalPodAutoscalerCheckpointStatus is the history itself (UPSTREAM.md §1.4, §2.17).
type VerticalPodAutoscalerCheckpointStatus struct {
	// +optional
	// +nullable
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
	// Version is v3.
	// +optional
	Version string `json:"version,omitempty"`
	// CPUHistogram is in cores.
	// +optional
	CPUHistogram HistogramCheckpoint `json:"cpuHistogram,omitempty"`
	// MemoryHistogram is in bytes, one sample a container and aggregation window.
	// +optional
	MemoryHistogram HistogramCheckpoint `json:"memoryHistogram,omitempty"`
	// +optional
	// +nullable
	FirstSampleStart metav1.Time `json:"firstSampleStart,omitempty"`
	// +optional
	// +nullable
	LastSampleStart metav1.Time `json:"lastSampleStart,omitempty"`
	// TotalSamplesCount counts CPU samples.
	// +optional
	TotalSamplesCount int `json:"totalSamplesCount,omitempty"`
}

// HistogramCheckpoint is a decaying histogram with weights scaled to integers of at most 10000.
type HistogramCheckpoint struct {
	// +optional
	// +nullable
	ReferenceTimestamp metav1.Time `json:"referenceTimestamp,omitempty"`
	// BucketWeights maps the decimal index of a bucket to its weight.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:validation:Type=object
	BucketWeights map[string]uint32 `json:"bucketWeights,omitempty"`
	// TotalWeight is the sum of the weights before scaling.
	// +optional
	TotalWeight float64 `json:"totalWeight,omitempty"`
}

var _ runtime.Object = &VerticalPodAutoscalerCheckpoint{}
