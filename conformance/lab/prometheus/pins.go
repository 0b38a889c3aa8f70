//go:build pins

// Package prometheus pins the Prometheus of tests, and its promtool, in its own module, because
// Kubernetes and Prometheus would change each other's versions.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
