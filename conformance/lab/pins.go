//go:build pins

package main

// Imports keep these modules pinned through `go mod tidy`.
import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kube-state-metrics/v2"
	_ "k8s.io/kubernetes/cmd/kubelet"
	_ "sigs.k8s.io/kwok/cmd/kwokctl"
)
