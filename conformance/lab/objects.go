package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/celvpa/celvpa/conformance/lab/vm"
)

var (
	nodeGVR    = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	serviceGVR = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	sliceGVR   = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	apiGVR     = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// nodeFeatures are what kubelets of this release declare; without them the API server refuses
// resizes of pods with pod-level resources.
var nodeFeatures = []any{
	"GuaranteedQoSPodCPUResize",
	"InPlacePodLevelResourcesVerticalScaling",
}

type objects struct {
	client dynamic.Interface
	rest   rest.Interface
}

func newObjects(config *rest.Config) (*objects, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	plain, err := rest.UnversionedRESTClientFor(restDefaults(config))
	if err != nil {
		return nil, err
	}
	return &objects{client: client, rest: plain}, nil
}

// restDefaults prepares a config for raw requests by path.
func restDefaults(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	return c
}

// simulate makes KWOK's nodes and says what its pods use.
func (o *objects) simulate(ctx context.Context, nodes int) error {
	if err := o.applyUsage(ctx, usageObjects); err != nil {
		return err
	}
	return o.applyNodes(ctx, nodes)
}

// waitForNode waits until a node is ready, or fails at once if its machine is no longer alive. Its last heartbeat, whose time is in
// whole seconds, must be new: a node that was killed is called ready for a while.
func (o *objects) waitForNode(ctx context.Context, name string, limit time.Duration, alive func() bool) error {
	since := time.Now()
	last := "not registered"
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		if !alive() {
			return false, errors.New("the virtual machine has stopped, or its processors stand still")
		}
		node, err := o.client.Resource(nodeGVR).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
		for _, c := range conditions {
			condition, ok := c.(map[string]any)
			if !ok || condition["type"] != "Ready" {
				continue
			}
			last = fmt.Sprint(condition["message"])
			beat, _ := condition["lastHeartbeatTime"].(string)
			when, err := time.Parse(time.RFC3339, beat)
			return err == nil && condition["status"] == "True" && when.After(since), nil
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("node %s is not ready: %w (%s)", name, err, last)
	}
	return nil
}

func (o *objects) applyNodes(ctx context.Context, count int) error {
	nodes := o.client.Resource(nodeGVR)
	for i := range count {
		name := fmt.Sprintf("node-%d", i)
		capacity := map[string]any{"cpu": "32", "memory": "256Gi", "pods": "500"}
		node := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{
				"name":   name,
				"labels": map[string]any{"kubernetes.io/hostname": name, "type": "kwok"},
				"annotations": map[string]any{
					"kwok.x-k8s.io/node":                   "fake",
					"metrics.k8s.io/resource-metrics-path": "/metrics/nodes/" + name + "/metrics/resource",
				},
			},
			"status": map[string]any{
				"capacity": capacity, "allocatable": capacity,
				"nodeInfo": map[string]any{"kubeletVersion": kubernetesVersion, "operatingSystem": "linux", "architecture": "amd64"},
			},
		}}
		if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating node %s: %w", name, err)
		}
		if err := o.declareFeatures(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// declareFeatures sets the node's declared features, as its kubelet would.
func (o *objects) declareFeatures(ctx context.Context, name string) error {
	nodes := o.client.Resource(nodeGVR)
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, servedWithin, true, func(ctx context.Context) (bool, error) {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading node %s: %w", name, err)
		}
		have, _, _ := unstructured.NestedStringSlice(node.Object, "status", "declaredFeatures")
		if len(have) == len(nodeFeatures) {
			return true, nil
		}
		if err := unstructured.SetNestedSlice(node.Object, nodeFeatures, "status", "declaredFeatures"); err != nil {
			return false, err
		}
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("declaring features of node %s: %w", name, err)
		}
		return true, nil
	})
}

// applyUsage retries, because the CRDs of the usage objects may not be served yet.
func (o *objects) applyUsage(ctx context.Context, manifests []byte) error {
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := reader.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("usage.yaml: %w", err)
		}
		gvr := schema.GroupVersionResource{Group: "kwok.x-k8s.io", Version: "v1alpha1", Resource: strings.ToLower(object.GetKind()) + "s"}
		var last error
		err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, servedWithin, true, func(ctx context.Context) (bool, error) {
			_, last = o.client.Resource(gvr).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "lab", Force: true})
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), last)
		}
	}
}

// registerMetricsServer routes metrics.k8s.io to a local port through a Service without pods: by name, or, if the API server asks
// for endpoints, by this machine's address as the real node sees it.
func (o *objects) registerMetricsServer(ctx context.Context, port int, endpoints bool) error {
	apply := metav1.ApplyOptions{FieldManager: "lab", Force: true}
	spec := map[string]any{"type": "ExternalName", "externalName": "localhost"}
	if endpoints {
		spec = map[string]any{"ports": []any{map[string]any{"port": int64(port), "protocol": "TCP"}}}
		slice := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata": map[string]any{"name": "metrics-server", "namespace": "kube-system",
				"labels": map[string]any{"kubernetes.io/service-name": "metrics-server"}},
			"addressType": "IPv4",
			"endpoints":   []any{map[string]any{"addresses": []any{vm.HostAddress}, "conditions": map[string]any{"ready": true}}},
			"ports":       []any{map[string]any{"name": "", "port": int64(port), "protocol": "TCP"}},
		}}
		if _, err := o.client.Resource(sliceGVR).Namespace("kube-system").Apply(ctx, "metrics-server", slice, apply); err != nil {
			return fmt.Errorf("applying the endpoints of metrics-server: %w", err)
		}
	}
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "metrics-server", "namespace": "kube-system"},
		"spec":     spec,
	}}
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1",
			"groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"name": "metrics-server", "namespace": "kube-system", "port": int64(port)},
		},
	}}
	if _, err := o.client.Resource(serviceGVR).Namespace("kube-system").Apply(ctx, "metrics-server", service, apply); err != nil {
		return fmt.Errorf("applying the metrics-server Service: %w", err)
	}
	if _, err := o.client.Resource(apiGVR).Apply(ctx, "v1beta1.metrics.k8s.io", api, apply); err != nil {
		return fmt.Errorf("applying the metrics.k8s.io APIService: %w", err)
	}
	return nil
}

// waitForMetricsAPI waits until node metrics can be listed, or fails at once if the server died.
func (o *objects) waitForMetricsAPI(ctx context.Context, limit time.Duration, alive func() bool) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		if !alive() {
			return false, errors.New("metrics-server has stopped")
		}
		body, err := o.rest.Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").DoRaw(ctx)
		last = err
		return err == nil && strings.Contains(string(body), "NodeMetricsList"), nil
	})
	if err != nil {
		return fmt.Errorf("metrics.k8s.io did not answer within %s: %w (last answer: %v)", limit, err, last)
	}
	return nil
}
