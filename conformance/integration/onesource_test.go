package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
)

// oneRuleFileChangesTheWebhookAndTheAPIServer: the webhook reloads the file, and the API server
// changes when the generated CRD is applied.
func oneRuleFileChangesTheWebhookAndTheAPIServer(t *testing.T) {
	withoutCelvpa(t)
	// In the second namespace only the API server validates.
	served, unserved := namespace(t, "it-source"), namespace(t, "it-unserved")
	dir := ownRules(t)
	startWebhook(t, served, "--rules-dir="+dir, "--rules-reload-interval=100ms", "--ignored-vpa-object-namespaces="+unserved)
	const refused = "vpa-object/min-replicas-positive@spec.updatePolicy.minReplicas"
	answers := func(ns, from string, replicas string, want ...string) {
		t.Helper()
		hang.Eventually(t, from+" to answer by the rules in the file", func(ctx context.Context) (bool, error) {
			err := cluster.Create(ctx, object(ns, "tried", "updatePolicy: {updateMode: 'Off', minReplicas: "+replicas+"}"), client.DryRunAll)
			byWebhook := err != nil && strings.Contains(err.Error(), "admission webhook")
			return slices.Equal(refusals(err), want) && (err == nil || byWebhook == (ns == served)), nil
		})
	}
	answers(served, "the webhook", "1")
	answers(unserved, "the API server", "1")
	answers(unserved, "the API server", "0", refused)

	editRules(t, dir, "vpa-object.yaml", "expression: self > 0\n", "expression: self > 1\n")
	answers(served, "the webhook", "1", refused)
	answers(served, "the webhook", "2")
	answers(unserved, "the API server", "1") // the CRD is still the old one

	t.Cleanup(func() { require.NoError(t, cluster.InstallCRDs(context.Background(), false)) })
	file := filepath.Join(t.TempDir(), "crds.yaml")
	require.NoError(t, os.WriteFile(file, printed(t, "--rules-dir="+dir), 0o600))
	require.NoError(t, cluster.ApplyFiles(t.Context(), file))
	answers(unserved, "the API server", "1", refused)
	answers(unserved, "the API server", "2")
}
