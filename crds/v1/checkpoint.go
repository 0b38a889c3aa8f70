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

// All fields but resume are upstream's (UPSTREAM.md §1.4, §2.17). The comments below become descriptions in the CRD.

// VerticalPodAutoscalerCheckpointStatus is the history itself.
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
	// Resume is what the histograms lack for a recommender to go on after a restart as if there had
	// been none. It is celvpa's own: upstream does not read it, and removes it when it writes.
	// +optional
	Resume *CheckpointResume `json:"resume,omitempty"`
}

// CheckpointResume is the state of a container beside its histograms. If any of it is faulty, all of
// it is ignored, and the histograms count alone.
type CheckpointResume struct {
	// WrittenAt is lastUpdateTime. If they differ, another program has written the checkpoint since.
	WrittenAt metav1.Time `json:"writtenAt"`
	// CPUWeights are the weights of cpuHistogram before they were rounded: for each bucket its index
	// as one byte, and its weight as a big-endian IEEE 754 number of eight.
	// +optional
	CPUWeights []byte `json:"cpuWeights,omitempty"`
	// MemoryWeights are those of memoryHistogram.
	// +optional
	MemoryWeights []byte `json:"memoryWeights,omitempty"`
	// CPUHalfLife is the time in which weights of cpuHistogram halve.
	// +optional
	CPUHalfLife metav1.Duration `json:"cpuHalfLife,omitempty"`
	// MemoryHalfLife is the same for memoryHistogram.
	// +optional
	MemoryHalfLife metav1.Duration `json:"memoryHalfLife,omitempty"`
	// MemorySamples counts memory samples above 0 bytes, OOM kills included.
	// +optional
	MemorySamples int `json:"memorySamples,omitempty"`
	// LastMemorySample is the time of the newest of them, if it is later than lastSampleStart: history
	// ends some days after the last sample of either resource.
	// +optional
	LastMemorySample *Instant `json:"lastMemorySample,omitempty"`
	// Pods are those that have the container, by name; at most 100, those with OOM kills and the
	// largest memory peaks.
	// +optional
	Pods []CheckpointPod `json:"pods,omitempty"`
	// OmittedCPUSample is the time of the newest CPU sample of all other pods.
	// +optional
	OmittedCPUSample *Instant `json:"omittedCPUSample,omitempty"`
	// Past is what was recommended for the container in the last day, if rules read it.
	// +optional
	Past *CheckpointPast `json:"past,omitempty"`
}

// CheckpointPast is what was recommended for a container.
type CheckpointPast struct {
	// Begun is since when it is kept.
	Begun Instant `json:"begun"`
	// Changed is when the target changed last.
	// +optional
	Changed *Instant `json:"changed,omitempty"`
	// Target is the last one.
	Target CheckpointAmounts `json:"target"`
	// Hours are those of the last day in which there was a recommendation, in their order.
	// +optional
	Hours []CheckpointHour `json:"hours,omitempty"`
}

// CheckpointHour are the targets of one hour.
type CheckpointHour struct {
	Begin   Instant           `json:"begin"`
	Lowest  CheckpointAmounts `json:"lowest"`
	Highest CheckpointAmounts `json:"highest"`
}

// CheckpointAmounts are a target.
type CheckpointAmounts struct {
	// +optional
	MilliCPU int64 `json:"milliCPU,omitempty"`
	// Memory is in bytes.
	// +optional
	Memory int64 `json:"memory,omitempty"`
}

// CheckpointPod is the state of the container in one pod.
type CheckpointPod struct {
	Name string `json:"name"`
	// CPUSample is the time of the newest CPU sample.
	// +optional
	CPUSample *Instant `json:"cpuSample,omitempty"`
	// MemorySample is the time of the newest memory sample, if it is not cpuSample.
	// +optional
	MemorySample *Instant `json:"memorySample,omitempty"`
	// WindowEnd is the end of the last memory window.
	// +optional
	WindowEnd *Instant `json:"windowEnd,omitempty"`
	// Closed: the window was over when the checkpoint was written, so memoryHistogram has its peak.
	// +optional
	Closed bool `json:"closed,omitempty"`
	// MemoryPeak is the largest sample of the window, in bytes.
	// +optional
	MemoryPeak *int64 `json:"memoryPeak,omitempty"`
	// OOMPeak is the largest sample of the window that stands for an OOM kill, in bytes.
	// +optional
	OOMPeak *int64 `json:"oomPeak,omitempty"`
	// LastOOM is the time of the last OOM kill that was judged.
	// +optional
	LastOOM *Instant `json:"lastOOM,omitempty"`
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
