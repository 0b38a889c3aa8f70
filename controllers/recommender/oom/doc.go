// Package oom notices containers that ran out of memory: those that were killed, as the statuses of pods tell, and those
// whose pod was evicted by its kubelet, as events tell (UPSTREAM.md §2.10). It says what happened; what it means for a
// recommendation is up to the rules.
package oom
