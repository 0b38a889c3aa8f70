// Package history reads the usage of past days from Prometheus once, at the start
// (--storage=prometheus; UPSTREAM.md §2.18): the CPU and the memory of containers, and the labels
// of their pods. A query or a series that fails does not affect the others.
package history
