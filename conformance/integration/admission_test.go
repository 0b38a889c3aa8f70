package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/admission"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/crds/emit"
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

// printed is the output of celvpa crd.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, append([]string{"crd"}, args...)...).Output()
	require.NoError(t, err)
	return out
}

// theAdmissionPolicyStandsInForTheWebhook: `celvpa crd --vap` is for clusters that want no webhook.
// The policy refuses fields whose gate is off, tolerates fields that an object already has, and
// warns.
func theAdmissionPolicyStandsInForTheWebhook(t *testing.T) {
	withoutCelvpa(t)
	ns := namespace(t, "it-policy")
	was := object(ns, "was-in-place", "updatePolicy: {updateMode: InPlace}, resourcePolicy: {containerPolicies: [{containerName: app, controlledResources: [storage]}]}")
	require.NoError(t, cluster.Create(t.Context(), was), "nobody refuses it yet")
	inPlace := func(ctx context.Context) error {
		return cluster.Create(ctx, object(ns, "in-place", "updatePolicy: {updateMode: InPlace}"), client.DryRunAll)
	}
	require.NoError(t, inPlace(t.Context()))

	policies, err := harness.Decode(printed(t, "--vap"))
	require.NoError(t, err)
	require.Len(t, policies, 4, "two policies and their bindings")
	t.Cleanup(func() { // other tests must not meet them
		ctx := context.Background()
		for _, p := range policies {
			require.NoError(t, client.IgnoreNotFound(cluster.Delete(ctx, p)))
		}
		require.NoError(t, wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, hang.Limit, true, func(ctx context.Context) (bool, error) { return inPlace(ctx) == nil, nil }))
	})
	for _, p := range policies {
		require.NoError(t, cluster.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(p.DeepCopy()), client.FieldOwner("test")))
	}
	for _, name := range []string{emit.DenyPolicy, emit.WarnPolicy} {
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		hang.Eventually(t, "the types of "+name+" to be checked", func(ctx context.Context) (bool, error) {
			err := cluster.Get(ctx, client.ObjectKey{Name: name}, &policy)
			return policy.Status.TypeChecking != nil && policy.Status.ObservedGeneration == policy.Generation, err
		})
		require.Empty(t, policy.Status.TypeChecking.ExpressionWarnings, name)
	}
	hang.Eventually(t, "an object behind a gate to be refused", func(ctx context.Context) (bool, error) {
		err := inPlace(ctx)
		return err != nil && strings.Contains(err.Error(), "(rule vpa-gates/in-place)"), nil
	})
	tried := newListener(t)
	hang.Eventually(t, "a deprecated mode to be warned about", func(ctx context.Context) (bool, error) {
		err := tried.Create(ctx, object(ns, "tried", "updatePolicy: {updateMode: Auto}"), client.DryRunAll)
		return len(tried.warnings()) > 0, err
	})

	for name, tt := range map[string]struct{ spec, refused, warned string }{
		"valid":                       {spec: "updatePolicy: {updateMode: 'Off'}"},
		"no fields at all":            {spec: ""},
		"a deprecated mode":           {spec: "updatePolicy: {updateMode: Auto}", warned: "vpa-object/auto-is-deprecated"},
		"an unsupported resource":     {spec: "resourcePolicy: {containerPolicies: [{containerName: a}, {containerName: b, controlledResources: [cpu, storage]}]}", refused: "vpa-object/controlled-resources-known"},
		"behind a gate, in a list":    {spec: "resourcePolicy: {containerPolicies: [{containerName: a, memoryPerCPU: 4Gi}]}", refused: "vpa-gates/memory-per-cpu"},
		"behind a gate, in an object": {spec: "startupBoost: {cpu: {type: Factor, factor: 2}}", refused: "vpa-gates/startup-boost"},
	} {
		t.Run(name, func(t *testing.T) {
			tried.warnings()
			err := tried.Create(t.Context(), object(ns, "tried", tt.spec), client.DryRunAll)
			if tt.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "(rule "+tt.refused+")")
			}
			heard := strings.Join(tried.warnings(), "\n")
			if tt.warned == "" {
				require.Empty(t, heard)
			} else {
				require.Contains(t, heard, "(rule "+tt.warned+")")
			}
		})
	}
	t.Run("fields that the object already had", func(t *testing.T) {
		was.SetLabels(map[string]string{"tier": "web"})
		require.NoError(t, unstructured.SetNestedField(was.Object, int64(3), "spec", "updatePolicy", "minReplicas"))
		require.NoError(t, cluster.Update(t.Context(), was))
		require.NoError(t, unstructured.SetNestedMap(was.Object, map[string]any{"cpu": map[string]any{"type": "Factor", "factor": int64(2)}}, "spec", "startupBoost"))
		require.ErrorContains(t, cluster.Update(t.Context(), was), "(rule vpa-gates/startup-boost)", "what is new is judged")
	})
}

// withoutAdmission: no evictions, because new pods would not get their resources. Resizes continue.
func withoutAdmission(t *testing.T) {
	ns := namespace(t, "up-lease")
	evicted, resized := deployed(t, ns, "evicted", 2, small), deployed(t, ns, "resized", 2, small)
	watchedOver(t, ns, "evicted", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	watchedOver(t, ns, "resized", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns, "--admission-controller-status-lease-name="+ns)
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	same(t, ns, "resized", resized)
	// A pod that would have to be evicted stays.
	recommendNow(t, ns, "resized", target("40", "200Mi"))
	u.decided("evicted", "eviction/admission-down")
	hang.Eventually(t, "a resize that is refused", func(context.Context) (bool, error) { return u.requests.of("resize", "resized") > 2, nil })
	u.cycles(2)
	same(t, ns, "evicted", evicted)
	same(t, ns, "resized", resized)
	require.Zero(t, u.requests.of("eviction", "evicted")+u.requests.of("eviction", "resized"))
	require.Positive(t, u.counted("vpa_updater_admission_controller_status_invalid_total", `reason="error"`))
}
