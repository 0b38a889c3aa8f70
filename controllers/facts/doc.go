// Package facts tells the policy engine about vertical pod autoscaling: units, feature gates, functions, and the
// points at which rule sets plug in, with the facts each point supplies. The recommender, the updater and the
// webhook bind Kubernetes objects to those facts here, so that all three run the same policy on the same terms.
//
// No policy may live here: a fact says what is, never what to do about it.
package facts
