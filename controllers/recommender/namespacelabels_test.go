package recommender

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestChangedLabelsOfANamespaceCountInTheNextCycle, though the VPA is as it was.
func TestChangedLabelsOfANamespaceCountInTheNextCycle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roomy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: roomy}
spec:
  match: {namespaceSelector: {matchLabels: {tier: front}}}
  change: [{params: {podMinimum.cpu: 400}}]
`), 0o600))
	labels, known := map[string]string{"tier": "batch"}, true
	w := newWorld(t, policy.Options{Path: file, Namespaces: func(string) (map[string]string, bool) { return labels, known }})
	w.idlePod("p", "app")
	rules := func() string { return w.condition(vpav1.RulesApplied).Message }
	target := func() string { return w.v.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().String() }
	require.True(t, w.cycle())
	require.Equal(t, "25m", target())
	require.NotContains(t, rules(), "roomy")

	labels = map[string]string{"tier": "front"}
	require.True(t, w.cycle())
	require.Equal(t, "400m", target())
	require.Contains(t, rules(), ", overlays roomy")
	require.False(t, w.cycle(), "nothing changed")

	known = false
	require.True(t, w.cycle())
	require.Equal(t, "25m", target())
	require.Contains(t, rules(), "; the labels of namespace ns are not known, so overlays with a namespaceSelector do not apply: roomy")
}
