package updater

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestAnOverlayThatMakesPodsInvalidIsNamedInTheCondition and evicts no pod.
func TestAnOverlayThatMakesPodsInvalidIsNamedInTheCondition(t *testing.T) {
	w := newWorld(t, withOverlay(t, `
  - after: valid-limits/within-pod
    stage: {name: careless, each: [container, resource], rules: [{name: too-much, when: resource in requests, set: {"requests[resource]": "0 - requests[resource]"}}]}
`))
	w.workload("web", 4, vpav1.UpdateModeRecreate)
	require.Empty(t, w.cycle())
	condition := w.condition("web")
	require.NotNil(t, condition)
	require.Equal(t, "eligibility/recommendation-withheld", condition.Reason)
	require.Contains(t, condition.Message, "part of the recommendation is not applied to Deployment web, because API servers would refuse its pods: ")
	require.Contains(t, condition.Message, "with the rules of RuleOverlay mine")
	require.Len(t, w.heard("UpdatesHaveNoEffect"), 1)
	w.cycle()
	require.Len(t, w.heard("UpdatesHaveNoEffect"), 1, "once while it lasts")
}

// withOverlay runs an updater by the shipped rules with one overlay called mine, whose changes are YAML, and with gate InPlace.
func withOverlay(t *testing.T, changes string) func(*Options) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: mine}\nspec:\n  change:"+changes), 0o600))
	return withRules(t, policy.Options{Path: file, Gates: map[string]bool{"InPlace": true}})
}
