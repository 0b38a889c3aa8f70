// Package node has the tests of celvpa on a real node: a kubelet that resizes, a kernel that throttles and kills, metrics that
// lag. celvpa runs there in pods, from its own image and chart. make test-node runs them on a node of the lab's, or on the cluster
// of KUBECONFIG; nothing here knows which.
package node
