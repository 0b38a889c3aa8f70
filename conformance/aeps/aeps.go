// Package aeps holds the VerticalPodAutoscalers that enhancement proposals of kubernetes/autoscaler (AEPs) print, character by
// character, and some made from what they say, with what must become of each. Nothing is decided here.
package aeps

import (
	"embed"
)

// FS holds the manifests.
//
//go:embed *.yaml
var FS embed.FS

// Manifest is a file of FS and what must become of it.
type Manifest struct {
	File string
	AEP  int
	// Gate is the feature gate that its fields need: without it a new object is refused. Empty = it needs none.
	Gate string
	// Rule by which it is refused with its gate on, as set/validation; empty = it is allowed.
	Rule string
	// Warned are the fields that are warned of with its gate on.
	Warned []string
	// Derived: made from the text of the proposal, which does not print it.
	Derived bool
	Note    string
}

// Allowed reports whether it is accepted with its gate on.
func (m Manifest) Allowed() bool { return m.Rule == "" }

// The fields that are warned of.
const (
	modeField   = "spec.updatePolicy.updateMode"
	targetField = "spec.targetRef"
)

// Manifests are all files of FS.
var Manifests = []Manifest{
	{File: "7571-1-recommendation.yaml", AEP: 7571, Note: "What the status looks like: it uses no new field of the spec."},
	{File: "7571-2-memory-not-covered.yaml", AEP: 7571, Gate: "PodLevelResources", Rule: "pod-level/controlled-resources-covered", Note: "Printed as invalid: no container policy controls memory."},
	{File: "7571-3-one-container-covers.yaml", AEP: 7571, Gate: "PodLevelResources", Note: "Printed as valid but impractical."},
	{File: "7571-4-sidecar-off.yaml", AEP: 7571, Note: "Printed as valid; it uses no new field."},
	{File: "7571-5-changed-to-cpu.yaml", AEP: 7571, Gate: "PodLevelResources", Rule: "pod-level/controlled-resources-covered", Derived: true, Note: "7571-3 with the change that its comment says to be invalid."},
	{File: "8026-1-simple-vpa.yaml", AEP: 8026, Gate: "PerVPAConfig", Warned: []string{modeField}, Note: "Mode Auto is deprecated."},
	{File: "8459-1-memory-per-cpu.yaml", AEP: 8459, Gate: "MemoryPerCPURatio", Warned: []string{targetField}, Note: "Printed without targetRef."},
	{File: "8459-2-out-of-reach.yaml", AEP: 8459, Gate: "MemoryPerCPURatio", Rule: "memory-per-cpu/minimum-reachable", Derived: true, Note: "1 × 5Gi is above 4Gi."},
	{File: "8459-3-within-reach.yaml", AEP: 8459, Gate: "MemoryPerCPURatio", Derived: true, Note: "1 × 2Gi is not above 4Gi."},
	{File: "8515-1-factor-and-quantity.yaml", AEP: 8515, Gate: "RequestToLimitRatio", Note: "The field is spelled with a capital letter."},
	{File: "8515-2-cpu-only.yaml", AEP: 8515, Gate: "RequestToLimitRatio", Note: "A factor that is not a whole number."},
	{File: "8818-1-in-place.yaml", AEP: 8818, Gate: "InPlace", Derived: true, Note: "The mode that the proposal adds."},
}

// Line is a line of a proposal's test plan that asks for an end-to-end test, with the Go functions that do it.
type Line struct {
	AEP  int
	Line string
	// Lab is the function on the lab's simulated nodes, in conformance/integration; empty = a simulated node cannot show it.
	Lab string
	// Node is the function on a real node, in conformance/node; empty = it would show nothing more.
	Node string
}

// Lines are those of all proposals.
var Lines = []Line{
	{AEP: 7571, Line: "Recommender: a status with recommendations for the pod and its containers", Lab: "TestNewPods", Node: "podRecommended"},
	{AEP: 7571, Line: "Updater: Recreate and InPlaceOrRecreate", Lab: "bothStanzasInOneGo", Node: "TestPodLevelResources"},
	{AEP: 7571, Line: "Admission Controller: Recreate, for the pod and its containers", Lab: "recreateReplacesPodsWithTheirOwn", Node: "TestPodLevelResources"},
	{AEP: 8026, Line: "Different configurations are properly applied", Node: "TestAnOOMKillRaisesMemory"},
	{AEP: 8026, Line: "Behavior for different parameter combinations", Node: "TestAnOOMKillRaisesMemory"},
	{AEP: 8026, Line: "Fallback to global configuration", Node: "TestAnOOMKillRaisesMemory"},
	{AEP: 8459, Line: "Behavior with different configurations", Lab: "configurationsOfMemoryPerCPU"},
	{AEP: 8515, Line: "InPlaceOrRecreate where the QoS class changes", Lab: "qosClassChanges", Node: "TestARequestToLimitRatio"},
	{AEP: 8515, Line: "InPlaceOrRecreate where the QoS class does not change", Lab: "qosClassDoesNotChange", Node: "TestARequestToLimitRatio"},
	{AEP: 8818, Line: "Basic In-Place Update", Lab: "basicInPlaceUpdate", Node: "TestAResizeReachesTheKernel"},
	{AEP: 8818, Line: "No Eviction on Failure", Lab: "noEvictionOnFailure", Node: "TestAResizeBeyondTheNodeIsRemembered"},
	{AEP: 8818, Line: "Feature Gate Disabled", Lab: "inPlaceIsOff"},
	{AEP: 8818, Line: "Indefinite Wait for In-Progress Updates", Lab: "indefiniteWaitForInProgressUpdates", Node: "TestAMemoryLimitBelowUsage"},
	{AEP: 8818, Line: "Failed Update - Retry Success", Lab: "failedUpdateRetrySuccess", Node: "TestAMemoryLimitBelowUsage"},
	{AEP: 8818, Line: "Infeasible Resize Handling", Lab: "infeasibleResizeHandling"},
	{AEP: 8818, Line: "Infeasible Status Storage (pre-1.36)", Lab: "infeasibleStatusStorage"},
	{AEP: 8818, Line: "Infeasible Patch Rejection with NodeCapacity Cause (1.36+)", Lab: "infeasiblePatchRejection", Node: "TestAResizeBeyondTheNodeIsRemembered"},
	{AEP: 8818, Line: "No Retry for Unchanged Recommendation", Lab: "noRetryForUnchangedRecommendation"},
	{AEP: 8818, Line: "Retry After Recommendation Change", Lab: "retryAfterRecommendationChange", Node: "TestAResizeBeyondTheNodeIsRemembered"},
	{AEP: 8818, Line: "Successful Update Clears Stored Attempt", Lab: "successfulUpdateClearsStoredAttempt"},
}
