// Package history tests what celvpa reads from a real Prometheus. Tests need no cluster; with -short
// they are skipped, as Prometheus takes minutes to build.
package history
