// Package usage reads what containers use now: from metrics-server, or from an adapter that serves external metrics
// (UPSTREAM.md §2.8). It passes on what it was told; what counts is up to the model and the rules.
package usage
