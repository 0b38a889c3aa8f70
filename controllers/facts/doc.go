// Package facts defines what policy rules know about vertical pod autoscaling: units, feature
// gates, functions, and points with their facts. The recommender, the updater and the webhook bind
// Kubernetes objects here, so all three run the same policy on the same facts.
//
// No policy may live here: a fact says what is, never what to do about it.
package facts
