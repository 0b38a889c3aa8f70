package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/crds/quantity"
)

// Usage is what the pods of a namespace use now; of all pods, if the namespace is empty.
type Usage func(namespace string) []metricsv1beta1.PodMetrics

const usagePath = "/apis/metrics.k8s.io/v1beta1"

// usageManifest points metrics.k8s.io at a port of this machine, through a Service without pods.
const usageManifest = `
apiVersion: v1
kind: Service
metadata: {name: harness-usage, namespace: kube-system}
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
  service: {name: harness-usage, namespace: kube-system, port: PORT}
`

// ServeUsage serves metrics.k8s.io in place of metrics-server, which a lab must not have, registers it and waits until the API
// server knows it. It ends with the process.
func (c *Cluster) ServeUsage(ctx context.Context, usage Usage) error {
	server, err := url.Parse(httptest.NewTLSServer(usage).URL)
	if err != nil {
		return err
	}
	objects, err := Decode([]byte(strings.ReplaceAll(usageManifest, "PORT", server.Port())))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.apply(ctx, o); err != nil {
			return err
		}
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, hung, true, func(ctx context.Context) (bool, error) {
		last = c.List(ctx, &metricsv1beta1.PodMetricsList{}, client.InNamespace(metav1.NamespaceDefault))
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for metrics.k8s.io: %w (%w)", err, last)
	}
	return nil
}

// ServeHTTP answers discovery, and lists of one namespace or of all.
func (u Usage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		answer = u.list(metav1.NamespaceAll)
	case len(path) == 3 && path[0] == "namespaces" && path[2] == "pods":
		answer = u.list(path[1])
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // fails for readers that have gone
}

func (u Usage) list(namespace string) *metricsv1beta1.PodMetricsList {
	items := u(namespace)
	if items == nil {
		items = []metricsv1beta1.PodMetrics{}
	}
	return &metricsv1beta1.PodMetricsList{
		TypeMeta: metav1.TypeMeta{APIVersion: metricsv1beta1.SchemeGroupVersion.String(), Kind: "PodMetricsList"}, Items: items,
	}
}

// Unknown is the annotation of pods whose usage is not served yet.
const Unknown = "usage/unknown"

// readEvery is the time between two readings of a pod.
const readEvery = 10 * time.Second

// Annotated is what running pods use, by the annotations that conformance/lab/usage.yaml describes, with amounts that stay the same:
// C.usage/cpu-low and C.usage/memory-low of container C. It is exact. What metrics-server measures is not on a busy machine: it divides
// by the time between two scrapes.
type Annotated struct {
	pods client.Reader

	mu     sync.Mutex
	served map[types.UID]map[time.Time]bool
}

// NewAnnotated follows the pods of a cluster until the context ends. Its Usage is for ServeUsage.
func (c *Cluster) NewAnnotated(ctx context.Context) (*Annotated, error) {
	objects, err := cache.New(c.Config, cache.Options{Scheme: c.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("following pods: %w", err)
	}
	go func() { _ = objects.Start(ctx) }()
	if _, err := objects.GetInformer(ctx, &corev1.Pod{}); err != nil { // waits for the first list
		return nil, fmt.Errorf("following pods: %w", err)
	}
	return &Annotated{pods: objects, served: map[types.UID]map[time.Time]bool{}}, nil
}

// Usage is a Usage.
func (a *Annotated) Usage(namespace string) (out []metricsv1beta1.PodMetrics) {
	var list corev1.PodList
	if err := a.pods.List(context.Background(), &list, client.InNamespace(namespace)); err != nil {
		return nil
	}
	at := time.Now().Truncate(readEvery)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodRunning || p.Status.StartTime == nil || p.Status.StartTime.After(at) || p.Annotations[Unknown] != "" {
			continue
		}
		if a.served[p.UID] == nil {
			a.served[p.UID] = map[time.Time]bool{}
		}
		a.served[p.UID][at] = true
		usage := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Timestamp: metav1.NewTime(at), Window: metav1.Duration{Duration: readEvery}}
		for _, c := range p.Spec.Containers {
			usage.Containers = append(usage.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: corev1.ResourceList{
				"cpu": amountOf(p, c.Name+".usage/cpu-low", "10m"), "memory": amountOf(p, c.Name+".usage/memory-low", "32Mi")}})
		}
		out = append(out, usage)
	}
	return out
}

// amountOf is the amount in an annotation.
func amountOf(p *corev1.Pod, annotation, otherwise string) resource.Quantity {
	text := p.Annotations[annotation]
	if text == "" {
		text = otherwise
	}
	q, err := quantity.Parse(text)
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// Readings is how many readings of a pod were served so far.
func (a *Annotated) Readings(pod types.UID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.served[pod])
}
