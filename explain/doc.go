// Package explain answers why a VerticalPodAutoscaler recommends what it does, what happens to its
// pods next, and what has to change for that to change.
//
// It puts together what the recommender, the updater and the admission controller say of the VPA
// (package controllers/answers, asked for by package explain/ask), the objects around it in the
// cluster, and, where a process cannot be asked, the same rules run on these objects (package
// simulate). What it could not find out stands in the report.
//
// It decides nothing: policy is in the rules, whose decisions carry their class. Findings about the
// installation and the cluster (package-level Tokens) are its own.
package explain
