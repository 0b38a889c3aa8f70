// Package upstream compares celvpa with the Vertical Pod Autoscaler of kubernetes/autoscaler by running both: for
// generated objects, the webhook of celvpa must accept, refuse, default and warn about what upstream's does, and change generated pods
// as it does; told what happens in generated clusters, its recommender must remember and recommend what upstream's does; and with
// generated workloads its updater must do what upstream's does.
// Where the two are meant to differ, tables in the tests say so and why; docs/upstream-differences.md tells users the same.
//
// Recorded usage is compared, too, when CELVPA_TRACES names a folder that holds some.
//
// It is a module of its own, and tests only, so that celvpa itself does not depend on upstream.
package upstream
