package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
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

// Audited is the namespace of the service accounts whose requests are in a lab's audit log.
const Audited = "audited"

// Account is a service account of namespace Audited with a ClusterRole of its own.
type Account struct {
	Name, Token string
	Role        *rbacv1.ClusterRole
	objects     []client.Object
}

// NewAccount creates an account that may do what these rules allow. Its role is named after it, with a prefix.
func (c *Cluster) NewAccount(ctx context.Context, name, prefix string, rules []rbacv1.PolicyRule) (*Account, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Audited}}
	if err := c.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating namespace %s: %w", Audited, err)
	}
	a := &Account{Name: name, Role: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: prefix + name}, Rules: rules}}
	user := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Audited, Name: name}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: a.Role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.Role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Audited, Name: name}}}
	a.objects = []client.Object{binding, a.Role, user}
	for _, o := range a.objects {
		if err := c.Create(ctx, o); err != nil {
			return nil, fmt.Errorf("creating account %s: %T: %w", name, o, err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, user, token); err != nil {
		return nil, fmt.Errorf("creating a token for account %s: %w", name, err)
	}
	a.Token = token.Status.Token
	return a, nil
}

// User is the name of the account in the audit log.
func (a *Account) User() string { return "system:serviceaccount:" + Audited + ":" + a.Name }

// DeleteAccount deletes an account and its role.
func (c *Cluster) DeleteAccount(ctx context.Context, a *Account) error {
	for _, o := range a.objects {
		if err := c.Delete(ctx, o); err != nil {
			return fmt.Errorf("deleting account %s: %T: %w", a.Name, o, err)
		}
	}
	return nil
}

// Remembered is the checkpoint of a container with n samples, the last one an hour old.
func Remembered(samples int, every time.Duration, milli, bytes func(i int) int64) vpav1.VerticalPodAutoscalerCheckpointStatus {
	now := time.Now().Add(-time.Hour).Truncate(time.Second)
	c := model.NewCluster(model.UnusedGrace)
	id := model.PodID{Name: "p"}
	w := c.SetWorkload(model.WorkloadID{Name: "w"}, facts.Order{}, "w", labels.Everything())
	c.SetPod(id, model.PodSpec{Containers: []string{"app"}}, now)
	for i := range samples {
		at := now.Add(time.Duration(i+1-samples) * every)
		c.AddSample(model.Sample{Pod: id, Container: "app", Resource: model.CPU, Amount: milli(i), At: at}, now)
		c.AddSample(model.Sample{Pod: id, Container: "app", Resource: model.Memory, Amount: bytes(i), At: at}, now)
	}
	c.KeepPods(nil) // its last window is over with the pod
	status, _, _ := w.Checkpoint("app", now)
	status.Resume = nil // as upstream writes it
	return status
}

// Days of usage that rises and falls, a sample a minute.
func Days(n int, milli, bytes int64) vpav1.VerticalPodAutoscalerCheckpointStatus {
	return Remembered(n*24*60, time.Minute, func(i int) int64 { return milli + int64(i%97)*7 }, func(i int) int64 { return bytes + int64(i%1440)<<17 })
}

// Checkpoint is that of a container of a VPA.
func Checkpoint(ns, vpa, container string, status vpav1.VerticalPodAutoscalerCheckpointStatus) *vpav1.VerticalPodAutoscalerCheckpoint {
	return &vpav1.VerticalPodAutoscalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: vpa + "-" + container},
		Spec:       vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: vpa, ContainerName: container},
		Status:     status,
	}
}

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
