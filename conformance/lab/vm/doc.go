// Package vm runs a Kubernetes node in a small virtual machine: a Debian kernel, containerd, runc and a kubelet under QEMU.
//
// The machine has QEMU's user networking, which needs no privileges: it reaches this machine's loopback as 10.0.2.2. The other
// way round there is one forwarded port, on which the agent (folder guest) listens. It is an HTTP CONNECT proxy, so that an API
// server with an egress selector reaches the kubelet, pods and the webhooks in them.
package vm
