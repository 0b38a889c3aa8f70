//go:build pins

// Package prometheus pins the Prometheus that tests of usage history run against. It is a module of its own because
// Kubernetes and Prometheus would change each other's versions.
package prometheus

import _ "github.com/prometheus/prometheus/cmd/prometheus"
