// Package usage reads the current usage of containers from metrics-server, or from an adapter that
// serves external metrics (UPSTREAM.md §2.8). It passes samples on as they are; the model and the
// rules decide which count.
package usage
