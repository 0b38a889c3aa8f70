// Package upstream compares celvpa with the Vertical Pod Autoscaler of kubernetes/autoscaler by running both: for
// generated objects, the webhook of celvpa must accept, refuse, default and warn about what upstream's does. Where the
// two are meant to differ, a table in the tests says so and why; docs/upstream-differences.md tells users the same.
//
// It is a module of its own, and tests only, so that celvpa itself does not depend on upstream.
package upstream
