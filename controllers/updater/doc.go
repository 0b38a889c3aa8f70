// Package updater brings running pods to their recommendation. A cycle (run.go) gives each pod to
// the VPA that controls it (assign.go) and runs a podupdate.Step over the pods of each VPA
// (workload.go), which asks the rules about one pod after the other. What it decides is carried out
// (actuator.go) with package actuation: the pod is resized in place or evicted. Refusals of the API
// server and evictions without effect become facts of the next cycle through podupdate.Memory. All
// policy is in the rules.
//
// Beside the cycles, package boosts ends startup boosts. Both send requests through package
// actuation and count them in package counters. None of these packages imports this one.
package updater
