// Package standin serves from memory what celvpa's components ask of an API server: discovery,
// lists and watches as client-go's informers want them, metrics.k8s.io, statuses of
// VerticalPodAutoscalers, and checkpoints. It serves clusters of Kubernetes' limits to components that
// run as they are, on a machine that could not hold such a cluster's etcd.
//
// It checks nothing: no schema, no permission, no precondition. What depends on that is tested on a
// lab.
package standin
