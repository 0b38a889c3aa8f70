// Package updater brings running pods to their recommendation. A cycle (run.go) gives each pod to
// the VPA that controls it (assign.go), assesses the pods of a VPA and asks the rules about each
// (workload.go), and carries the verdict out: it resizes the pod in place or evicts it (pod.go,
// actuator.go). Refusals of the API server (refusal.go) and evictions without effect (breaker.go)
// become facts of the next cycle. Startup boosts end beside the cycles (boosts.go). All policy is
// in the rules.
package updater
