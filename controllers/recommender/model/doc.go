// Package model holds what the recommender remembers of usage: decaying histograms, one memory peak a window, and
// their aggregation over the pods of a workload (UPSTREAM.md §2.7–2.13). Numbers match upstream's to the digit.
//
// No policy lives here: the model answers what was used, rules decide what that means.
package model
