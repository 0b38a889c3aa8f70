//go:build pins

// Package etcd pins the etcd of a lab. It is a module of its own because Kubernetes would raise the version.
package etcd

import _ "go.etcd.io/etcd/server/v3"
