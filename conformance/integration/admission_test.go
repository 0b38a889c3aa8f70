package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/admission"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/webhook"
)

// withoutCelvpa stops the shared celvpa, so that no webhook is called for VerticalPodAutoscalers.
func withoutCelvpa(t *testing.T) {
	t.Helper()
	if celvpa != nil {
		require.NoError(t, celvpa.Stop())
	}
	unregister(t)
}

// unregister deletes the webhook configuration of a celvpa that has stopped.
func unregister(t *testing.T) {
	t.Helper()
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhook.ConfigName}}
	require.NoError(t, client.IgnoreNotFound(cluster.Delete(context.WithoutCancel(t.Context()), config)))
}

// startWebhook runs an admission controller until the test ends, and waits until the API server
// calls it.
func startWebhook(t *testing.T, ns string, flags ...string) {
	t.Helper()
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	args = append(append([]string{"admission-controller", "--kubeconfig=" + kubeconfig}, args...), flags...)
	c, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"), args, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Stop())
		unregister(t)
	})
	require.NoError(t, c.WaitReady(t.Context()))
	hang.Eventually(t, "the webhook to be asked", func(ctx context.Context) (bool, error) {
		// No schema rule covers this.
		err := cluster.Create(ctx, object(ns, "probe", "resourcePolicy: {containerPolicies: [{containerName: a, minAllowed: {cpu: 0.1m}}]}"), client.DryRunAll)
		return slices.Equal(refusals(err), []string{"vpa-bounds/whole@spec.resourcePolicy.containerPolicies[0].minAllowed[cpu]"}), nil
	})
}

// object is a VerticalPodAutoscaler with a target and the given spec.
func object(ns, name, spec string) *unstructured.Unstructured {
	objects, err := harness.Decode(fmt.Appendf(nil, "{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {namespace: %s, name: %s}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, %s}}", ns, name, spec))
	if err != nil {
		panic(err) // a mistake of the test
	}
	return objects[0]
}

// placed is an object of a table or a manifest, in the tests' namespace.
func placed(from map[string]any, ns, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(from)}
	u.SetAPIVersion("autoscaling.k8s.io/v1")
	u.SetKind("VerticalPodAutoscaler")
	u.SetNamespace(ns)
	u.SetName(name)
	return u
}

// refusals are the rules that refused an object, each with its field, as rule@field, sorted.
func refusals(err error) (out []string) {
	for _, cause := range causes(err) {
		if rule := admission.RuleOf(cause.Message); rule != "" && rule != "schema" {
			out = append(out, rule+"@"+cause.Field)
		}
	}
	slices.Sort(out)
	return out
}

func causes(err error) []metav1.StatusCause {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// listener is a client that collects warnings. It makes one request at a time.
type listener struct {
	*harness.Cluster

	mu    sync.Mutex
	heard []string
}

func newListener(t *testing.T) *listener {
	t.Helper()
	out := &listener{}
	connection, err := harness.ConnectWith(kubeconfig, func(c *rest.Config) { c.WarningHandler = out })
	require.NoError(t, err)
	out.Cluster = connection
	return out
}

// HandleWarningHeader implements rest.WarningHandler.
func (l *listener) HandleWarningHeader(_ int, _, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, text)
}

// warnings returns what was collected since the last call.
func (l *listener) warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.heard
	l.heard = nil
	return out
}

// putCRD replaces a CRD, as kubectl replace does, and waits until the API server validates by it.
func putCRD(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	var live apiextensionsv1.CustomResourceDefinition
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(crd), &live))
	crd = crd.DeepCopy()
	crd.ResourceVersion = live.ResourceVersion
	require.NoError(t, cluster.Update(t.Context(), crd))
}
