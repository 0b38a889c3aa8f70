package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/utils/ptr"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// updateInput is the object of a case about one cycle of the updater: a VPA, the pods that it
// controls, their owners, and what both sides remember.
type updateInput struct {
	VPA    json.RawMessage `json:"vpa"`
	Pods   []*corev1.Pod   `json:"pods"`
	Owners []ownerInput    `json:"owners,omitempty"`
	Flags  updateFlags     `json:"flags"`
	// Noticed are resizes that were seen before, by pod.
	Noticed map[string]noticedInput `json:"noticed,omitempty"`
	// Infeasible are targets that were tried before and found infeasible, by pod and container.
	Infeasible map[string]map[string]corev1.ResourceList `json:"infeasible,omitempty"`
	// Refusals are the API server's answers to resizes, by pod; see refusals.
	Refusals map[string]string `json:"refusals,omitempty"`
	// NoAdmission: the status lease of the admission controller has expired.
	NoAdmission bool `json:"noAdmission,omitempty"`
}

// ownerInput is an owner of pods. Replicas are the desired ones: of a DaemonSet those that it has
// scheduled, of a Job none, of a custom kind those of its scale.
type ownerInput struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// updateFlags are the updater's flags that affect its decisions; nil = default.
type updateFlags struct {
	MinReplicas       *int             `json:"min-replicas,omitempty"`
	EvictionTolerance *float64         `json:"eviction-tolerance,omitempty"`
	UpdateThreshold   *float64         `json:"pod-update-threshold,omitempty"`
	Lifetime          *metav1.Duration `json:"in-recommendation-bounds-eviction-lifetime-threshold,omitempty"`
	EvictAfterOOM     *metav1.Duration `json:"evict-after-oom-threshold,omitempty"`
	SkipBudget        bool             `json:"in-place-skip-disruption-budget,omitempty"`
}

func (f updateFlags) minReplicas() int   { return ptr.Deref(f.MinReplicas, 2) }
func (f updateFlags) tolerance() float64 { return ptr.Deref(f.EvictionTolerance, 0.5) }
func (f updateFlags) threshold() float64 { return ptr.Deref(f.UpdateThreshold, 0.1) }
func (f updateFlags) lifetime() time.Duration {
	return ptr.Deref(f.Lifetime, metav1.Duration{Duration: 12 * time.Hour}).Duration
}
func (f updateFlags) evictAfterOOM() time.Duration {
	return ptr.Deref(f.EvictAfterOOM, metav1.Duration{Duration: 10 * time.Minute}).Duration
}

// noticedInput is when a resize was first seen. UID is the UID of the pod at that time; empty = the
// current one.
type noticedInput struct {
	Age metav1.Duration `json:"age"`
	UID types.UID       `json:"uid,omitempty"`
}

// updateNow is the time of the cycle.
var updateNow = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// ago is a time in the form of API objects.
func ago(d time.Duration) string { return updateNow.Add(-d).Format(time.RFC3339) }

// readUpdate decodes a case. It fills in what all pods have: a namespace, a node, a UID.
func readUpdate(c testCase) (in updateInput, err error) {
	if err := json.Unmarshal(c.objectJSON(), &in); err != nil {
		return in, fmt.Errorf("reading the case: %w", err)
	}
	in.Pods = slices.DeleteFunc(in.Pods, func(pod *corev1.Pod) bool { return pod == nil })
	for _, pod := range in.Pods {
		pod.Namespace = "shop"
		pod.Spec.NodeName = "node"
		if pod.UID == "" {
			pod.UID = types.UID("uid-of-" + pod.Name)
		}
		if pod.Status.Phase == "" {
			pod.Status.Phase = corev1.PodRunning
		}
		for j := range pod.Spec.Containers { // as they are sent: without maps that hold nothing
			r := &pod.Spec.Containers[j].Resources
			if len(r.Requests) == 0 {
				r.Requests = nil
			}
			if len(r.Limits) == 0 {
				r.Limits = nil
			}
		}
	}
	return in, nil
}

// copy copies what the entries of the table change.
func (in updateInput) copy() updateInput {
	pods := in.Pods
	in.Pods = nil
	for _, pod := range pods {
		in.Pods = append(in.Pods, pod.DeepCopy())
	}
	in.Owners = slices.Clone(in.Owners)
	in.Noticed, in.Infeasible, in.Refusals = merged(in.Noticed, nil), merged(in.Infeasible, nil), merged(in.Refusals, nil)
	return in
}

func (in *updateInput) upstreamVPA() (*upstreamv1.VerticalPodAutoscaler, error) {
	v := &upstreamv1.VerticalPodAutoscaler{}
	if err := in.readVPA(v); err != nil {
		return nil, err
	}
	v.Name, v.Namespace, v.UID = "v", "shop", "uid-of-v"
	return v, nil
}

func (in *updateInput) celvpaVPA() (*vpav1.VerticalPodAutoscaler, error) {
	v := &vpav1.VerticalPodAutoscaler{}
	if err := in.readVPA(v); err != nil {
		return nil, err
	}
	v.Name, v.Namespace, v.UID = "v", "shop", "uid-of-v"
	return v, nil
}

func (in *updateInput) readVPA(v any) error {
	if len(in.VPA) == 0 {
		return nil
	}
	if err := json.Unmarshal(in.VPA, v); err != nil {
		return fmt.Errorf("reading the VPA: %w", err)
	}
	return nil
}

// pod returns a pod by name; nil = none.
func (in *updateInput) pod(name string) *corev1.Pod {
	for _, pod := range in.Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// owner returns the object of an owner reference; nil = none.
func (in *updateInput) owner(kind, name string) *ownerInput {
	for i := range in.Owners {
		if o := &in.Owners[i]; o.Kind == kind && o.Name == name {
			return o
		}
	}
	return nil
}

// controllerOf is the owner reference with controller: true.
func controllerOf(pod *corev1.Pod) *metav1.OwnerReference {
	for i := range pod.OwnerReferences {
		if ref := &pod.OwnerReferences[i]; ptr.Deref(ref.Controller, false) {
			return ref
		}
	}
	return nil
}

// wellKnownOwners are the kinds whose replica count upstream knows how to read.
var wellKnownOwners = []string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"}

// qosOf is the QoS class of a pod without init containers and pod-level resources, which a resize
// may not change (KEP-1287).
func qosOf(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, some := true, false
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources
		for _, name := range bounded {
			request, limit := r.Requests[name], r.Limits[name]
			some = some || request.Sign() > 0 || limit.Sign() > 0
			guaranteed = guaranteed && limit.Sign() > 0 && request.Cmp(limit) == 0
		}
	}
	switch {
	case guaranteed:
		return corev1.PodQOSGuaranteed
	case some:
		return corev1.PodQOSBurstable
	}
	return corev1.PodQOSBestEffort
}
