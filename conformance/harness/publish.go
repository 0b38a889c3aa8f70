package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoOutsideAddress is that of a machine without a network.
var ErrNoOutsideAddress = errors.New("this machine has no address but loopback, which API servers do not proxy to")

// OutsideAddress returns an unused address of this machine that is not loopback: a process that listens there can be published.
func OutsideAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if ip := prefix.Addr(); err == nil && ip.IsGlobalUnicast() { // neither loopback nor link-local
			port, err := freePort(ip.String())
			if err != nil {
				continue
			}
			return netip.AddrPortFrom(ip, uint16(port)).String(), nil
		}
	}
	return "", ErrNoOutsideAddress
}

// Publish makes a process on this machine reachable through the API server, as a pod with a Service. API servers proxy to
// nothing but pods, so there is one that seems to run at the address; its gate keeps it from being scheduled. The labels are
// those of the Service, port is the name of its port.
func (c *Cluster) Publish(ctx context.Context, namespace, name, port, address string, labels map[string]string) error {
	where, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("publishing a process: %w", err)
	}
	selector := map[string]string{"app": name}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: selector}, Spec: corev1.PodSpec{
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "celvpa.dev/runs-outside"}},
		Containers:      []corev1.Container{{Name: "outside", Image: "outside", Ports: []corev1.ContainerPort{{Name: port, ContainerPort: int32(where.Port())}}}},
	}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: corev1.ServiceSpec{
		Selector: selector, Ports: []corev1.ServicePort{{Name: port, Port: int32(where.Port()), TargetPort: intstr.FromString(port)}},
	}}
	for _, o := range []client.Object{pod, service} {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("publishing %s: creating %T %s/%s: %w", address, o, namespace, name, err)
		}
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, where.Addr().String(), []corev1.PodIP{{IP: where.Addr().String()}}
	if err := c.Status().Update(ctx, pod); err != nil {
		return fmt.Errorf("publishing %s: reporting that pod %s/%s runs: %w", address, namespace, name, err)
	}
	return nil
}
