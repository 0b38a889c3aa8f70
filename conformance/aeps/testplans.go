package aeps

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
