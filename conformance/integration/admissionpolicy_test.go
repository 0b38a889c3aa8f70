package integration

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/crds/emit"
)

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
