// Package recommender turns usage into recommendations. A cycle (recommender.go) takes a sample
// from its source (package usage) and adds it to the histograms of its container (package model);
// kills for memory come in as samples, too (package oom), and usage from before the start from
// checkpoints (history.go) or Prometheus (package history). The rules turn the usage of a VPA into
// a recommendation (estimate.go), which goes into its status (status.go, write.go). Checkpoints
// keep the histograms in the cluster (checkpoints.go).
package recommender
