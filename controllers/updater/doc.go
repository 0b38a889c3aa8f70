// Package updater brings running pods to their recommendation. A cycle (run.go) gives each pod to
// the VPA that controls it (assign.go), assesses the pods of a VPA and asks the rules about each
// (workload.go), and carries the verdict out (pod.go) by package actuation: it resizes the pod in
// place or evicts it. Refusals of the API server (backoff.go) and evictions without effect
// (breaker.go) become facts of the next cycle. All policy is in the rules.
//
// Beside the cycles, package boosts ends startup boosts. Both send requests through package
// actuation and count them in package counters; neither imports this package.
package updater
