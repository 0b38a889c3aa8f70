// Package updater brings running pods to their recommendation. A cycle (run.go) gives each pod to
// the VPA that controls it (assign.go), assesses the pods of a VPA and asks the rules about each
// (workload.go), and carries the verdict out (pod.go) with package actuation: it resizes the pod in
// place or evicts it. Refusals of the API server and evictions without effect become facts of the
// next cycle through package remembered. All policy is in the rules.
//
// Beside the cycles, package boosts ends startup boosts. Both send requests through package
// actuation and count them in package counters. None of these packages imports this one.
package updater
