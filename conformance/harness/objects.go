package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/emit"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Cluster is a connection to a Kubernetes API.
type Cluster struct {
	client.Client
	Config *rest.Config
}

// Connect connects with a kubeconfig file.
func Connect(kubeconfig string) (*Cluster, error) {
	return ConnectWith(kubeconfig, func(*rest.Config) {})
}

// ConnectWith is Connect with a modified client config.
func ConnectWith(kubeconfig string, change func(*rest.Config)) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 200, 400
	change(config)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, vpav1.AddToScheme, rulesv1alpha1.AddToScheme, apiextensionsv1.AddToScheme, metricsv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	return &Cluster{Client: c, Config: config}, nil
}

// InstallCRDs applies the shipped CRDs and waits until they are served. onlyMissing keeps existing
// ones, which may belong to someone else.
func (c *Cluster) InstallCRDs(ctx context.Context, onlyMissing bool) error {
	rules, err := policy.Load(policy.Options{})
	if err != nil {
		return err
	}
	all, err := emit.CRDs(rules.Default().Validations(facts.VPAValidate))
	if err != nil {
		return err
	}
	for _, crd := range all {
		if onlyMissing && c.Get(ctx, client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{}) == nil {
			continue
		}
		text, err := emit.YAML(crd)
		if err != nil {
			return fmt.Errorf("CRD %s: %w", crd.Name, err)
		}
		objects, err := Decode(text)
		if err != nil {
			return fmt.Errorf("CRD %s: %w", crd.Name, err)
		}
		if err := c.apply(ctx, objects[0]); err != nil {
			return err
		}
		if err := c.WaitEstablished(ctx, crd.Name); err != nil {
			return err
		}
	}
	return nil
}

// WaitEstablished waits until a CRD is served.
func (c *Cluster) WaitEstablished(ctx context.Context, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, hung, true, func(ctx context.Context) (bool, error) {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
			return false, err
		}
		return apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.Established), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for CRD %s: %w", name, err)
	}
	return nil
}

// ApplyFiles applies the objects of YAML files in order.
func (c *Cluster) ApplyFiles(ctx context.Context, files ...string) error {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		objects, err := Decode(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, o := range objects {
			if err := c.apply(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) apply(ctx context.Context, o *unstructured.Unstructured) error {
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("celvpa-harness"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// Decode reads the objects of a YAML stream.
func Decode(data []byte) ([]*unstructured.Unstructured, error) {
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var out []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := reader.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

// Clean deletes the objects and the namespace, if they exist, and waits until it is gone.
func (c *Cluster) Clean(ctx context.Context, namespace string, objects ...client.Object) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	for _, o := range append(objects, ns) {
		if err := c.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %T %s: %w", o, o.GetName(), err)
		}
	}
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(ns), ns)), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for namespace %s to be gone: %w", namespace, err)
	}
	return nil
}
