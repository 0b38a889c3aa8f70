// Package upstream compares celvpa with the Vertical Pod Autoscaler of kubernetes/autoscaler by
// running both on generated input. celvpa's webhook must accept, refuse, default and warn about the
// same objects, and patch pods in the same way; its recommender must keep the same history and give
// the same recommendations for the same cluster; and its updater must do the same with the same
// workloads. Tables in the tests list the deliberate differences with reasons;
// docs/upstream-differences.md lists them for users.
//
// It is a module of its own, with tests only, so that celvpa does not depend on upstream.
package upstream
