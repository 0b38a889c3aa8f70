//go:build pins

// Package prometheus pins the Prometheus of usage history tests in its own module, because
// Kubernetes and Prometheus would change each other's versions.
package prometheus

import _ "github.com/prometheus/prometheus/cmd/prometheus"
