// Package model holds the usage history of containers: decaying histograms, one memory peak per
// window, and their aggregation over the pods of a workload (UPSTREAM.md §2.7–2.13). Numbers match
// upstream's to the digit.
//
// It holds no policy: the model answers what was used, the rules decide what follows.
package model
