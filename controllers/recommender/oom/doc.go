// Package oom detects containers that ran out of memory: killed ones from the statuses of pods, and
// those whose pod was evicted by its kubelet from events (UPSTREAM.md §2.10). The rules decide what
// follows for the recommendation.
package oom
