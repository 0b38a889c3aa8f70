package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// usageAPI serves metrics.k8s.io in place of metrics-server, which could not read so many simulated pods in time.
// It always knows of usage of the moment it is asked, or of none at all.
type usageAPI struct {
	*http.Server
	samples    bool
	containers int
	pods       map[string][]string // by namespace; set before anybody reads
}

// serveUsage starts the API on a free port, and registers it.
func serveUsage(ctx context.Context, b *bench) (*usageAPI, error) {
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"localhost"}, Unpublished: true, Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		return nil, fmt.Errorf("preparing the certificate of metrics.k8s.io: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("finding a port for metrics.k8s.io: %w", err)
	}
	u := &usageAPI{samples: b.samples, containers: b.containers}
	u.Server = &http.Server{Handler: u, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certs.GetCertificate}}
	go func() { _ = u.ServeTLS(listener, "", "") }() // ends with Close
	if err := b.registerUsage(ctx, listener.Addr().(*net.TCPAddr).Port); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// registerUsage points metrics.k8s.io at a port of this machine, through a Service without pods.
func (b *bench) registerUsage(ctx context.Context, port int) error {
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "bench-usage", "namespace": metav1.NamespaceSystem},
		"spec":     map[string]any{"type": string(corev1.ServiceTypeExternalName), "externalName": "localhost"},
	}}
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
		"spec": map[string]any{
			"group": metricsv1beta1.GroupName, "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"name": "bench-usage", "namespace": metav1.NamespaceSystem, "port": int64(port)},
		},
	}}
	for _, o := range []*unstructured.Unstructured{service, api} {
		if err := b.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("bench"), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = b.api.Get().AbsPath("/apis/metrics.k8s.io/v1beta1/pods").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for metrics.k8s.io: %w (%w)", err, last)
	}
	return nil
}

func (u *usageAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var answer any
	switch {
	case !strings.HasPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1"):
		http.NotFound(w, r)
		return
	case len(path) == 3:
		answer = metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: metricsv1beta1.SchemeGroupVersion.String(),
			APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}}},
		}
	case len(path) == 4 && path[3] == "pods":
		answer = u.list("")
	case len(path) == 6 && path[3] == "namespaces" && path[5] == "pods":
		answer = u.list(path[4])
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // who does not read to the end has reasons of their own
}

// list is the usage of all pods of a namespace; empty = all.
func (u *usageAPI) list(of string) *metricsv1beta1.PodMetricsList {
	out := &metricsv1beta1.PodMetricsList{
		TypeMeta: metav1.TypeMeta{APIVersion: metricsv1beta1.SchemeGroupVersion.String(), Kind: "PodMetricsList"},
		Items:    []metricsv1beta1.PodMetrics{},
	}
	if !u.samples {
		return out
	}
	now := time.Now()
	for namespace, pods := range u.pods {
		if of != "" && of != namespace {
			continue
		}
		for _, pod := range pods {
			one := metricsv1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
				Timestamp:  metav1.NewTime(now), Window: metav1.Duration{Duration: 15 * time.Second},
			}
			for c := range u.containers {
				one.Containers = append(one.Containers, metricsv1beta1.ContainerMetrics{Name: harness.ContainerName(c), Usage: used(pod, c, now)})
			}
			out.Items = append(out.Items, one)
		}
	}
	slices.SortFunc(out.Items, func(a, b metricsv1beta1.PodMetrics) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}

// used is what a container uses: up to 500 milli-cores and 512 MiB, as a hash will have it.
func used(pod string, container int, at time.Time) corev1.ResourceList {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %d %d", pod, container, at.Unix())
	n := int64(h.Sum32())
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(10+n%490, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity((32+n/490%480)<<20, resource.BinarySI),
	}
}
