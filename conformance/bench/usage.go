package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
)

// usageAPI serves metrics.k8s.io in place of metrics-server, which cannot scrape that many
// simulated pods in time. Its samples are of the moment in which it is asked.
type usageAPI struct {
	samples    atomic.Bool // otherwise it knows no pod
	containers int
	pods       []metav1.PartialObjectMetadata // set before anybody reads
}

const usagePath = "/apis/metrics.k8s.io/v1beta1"

// usageManifest points metrics.k8s.io at a port of this machine, through a Service without pods.
const usageManifest = `
apiVersion: v1
kind: Service
metadata: {name: bench-usage, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: bench-usage, namespace: kube-system, port: PORT}
`

// serveUsage starts the API and registers it. It ends with the process.
func (l *lab) serveUsage(ctx context.Context) (*usageAPI, error) {
	u := &usageAPI{containers: l.containers}
	server, err := url.Parse(httptest.NewTLSServer(u).URL)
	if err != nil {
		return nil, err
	}
	objects, err := harness.Decode([]byte(strings.ReplaceAll(usageManifest, "PORT", server.Port())))
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if err := l.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("bench"), client.ForceOwnership); err != nil {
			return nil, fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = get(ctx, l.api, l.Config.Host+usagePath+"/pods")
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for metrics.k8s.io: %w (%w)", err, last)
	}
	return u, nil
}

// list takes the lab's pods for those that have usage.
func (u *usageAPI) list(ctx context.Context, l *lab) error {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := l.List(ctx, &list); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	u.pods = list.Items
	return nil
}

// ServeHTTP answers discovery, and lists of one namespace or of all.
func (u *usageAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	path := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, usagePath), "/"), "/")
	switch {
	case !strings.HasPrefix(r.URL.Path, usagePath):
		http.NotFound(w, r)
		return
	case path[0] == "":
		answer = metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: metricsv1beta1.SchemeGroupVersion.String(),
			APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}}},
		}
	case len(path) == 1 && path[0] == "pods":
		answer = u.usage(metav1.NamespaceAll)
	case len(path) == 3 && path[0] == "namespaces" && path[2] == "pods":
		answer = u.usage(path[1])
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // fails for readers that have gone
}

func (u *usageAPI) usage(namespace string) *metricsv1beta1.PodMetricsList {
	out := &metricsv1beta1.PodMetricsList{
		TypeMeta: metav1.TypeMeta{APIVersion: metricsv1beta1.SchemeGroupVersion.String(), Kind: "PodMetricsList"},
		Items:    []metricsv1beta1.PodMetrics{},
	}
	if !u.samples.Load() {
		return out
	}
	now := metav1.Now()
	for i := range u.pods {
		pod := &u.pods[i]
		if namespace != metav1.NamespaceAll && namespace != pod.Namespace {
			continue
		}
		one := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			Timestamp: now, Window: metav1.Duration{Duration: 15 * time.Second}}
		for c := range u.containers {
			one.Containers = append(one.Containers, metricsv1beta1.ContainerMetrics{Name: containerName(c), Usage: used(pod.Name, c, now.Unix())})
		}
		out.Items = append(out.Items, one)
	}
	return out
}

// used is what a container uses in a second: up to 500 milli-cores and 512 MiB, by a hash.
func used(pod string, container int, second int64) corev1.ResourceList {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod + " " + strconv.Itoa(container) + " " + strconv.FormatInt(second, 10)))
	n := int64(h.Sum32())
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(10+n%490, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity((32+n/490%480)<<20, resource.BinarySI),
	}
}
