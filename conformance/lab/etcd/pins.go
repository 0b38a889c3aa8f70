//go:build pins

// Package etcd pins the lab's etcd in its own module, because Kubernetes would raise the version.
package etcd

import _ "go.etcd.io/etcd/server/v3"
