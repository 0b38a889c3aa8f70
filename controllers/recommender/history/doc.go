// Package history reads the usage of past days from Prometheus, so that recommendations need not begin with nothing
// (--storage=prometheus; UPSTREAM.md §2.18). It asks three things once: how much CPU and how much memory containers
// used, and which labels their pods had. Whatever fails loses only itself: the rest is still history.
package history
