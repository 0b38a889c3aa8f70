package updater

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// TestEvictionsWaitForTheWindow of the cookbook's recipe, by the clock of the cycle: 2 January 2026 is a Friday.
func TestEvictionsWaitForTheWindow(t *testing.T) {
	w := newWorld(t, withRules(t, policy.Options{Path: "../../examples/cookbook/window.yaml", Params: map[string]string{"window.open": "Fri 09:00-17:00 Europe/Berlin"}}))
	w.workload("web", 4, vpav1.UpdateModeRecreate)
	opens := time.Date(2026, 1, 2, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		at     time.Time
		evicts bool
	}{{opens.Add(-time.Second), false}, {opens, true}, {opens.Add(8 * time.Hour), false}} {
		w.clock.SetTime(tt.at)
		require.Equal(t, tt.evicts, len(w.cycle()) > 0, tt.at)
	}
}

// TestAnAnnotationHoldsThePodsOfAVPA until it is removed, by the cookbook's recipe.
func TestAnAnnotationHoldsThePodsOfAVPA(t *testing.T) {
	w := newWorld(t, withRules(t, policy.Options{Path: "../../examples/cookbook/hold.yaml"}))
	w.workload("web", 4, vpav1.UpdateModeRecreate)
	annotate := func(annotations map[string]string) {
		var v vpav1.VerticalPodAutoscaler
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, &v))
		v.Annotations = annotations
		require.NoError(t, w.WithWatch.Update(t.Context(), &v))
	}
	annotate(map[string]string{"example.com/hold": "incident 42"})
	require.Empty(t, w.cycle())
	annotate(nil)
	require.NotEmpty(t, w.cycle())
}

// TestALabelKeepsAPodFromEviction and no other, by the cookbook's recipe.
func TestALabelKeepsAPodFromEviction(t *testing.T) {
	w := newWorld(t, withRules(t, policy.Options{Path: "../../examples/cookbook/label.yaml"}))
	w.workload("web", 2, vpav1.UpdateModeRecreate)
	var pods corev1.PodList
	require.NoError(t, w.List(t.Context(), &pods))
	kept := pods.Items[0]
	kept.Labels["example.com/never-evict"] = "true"
	require.NoError(t, w.WithWatch.Update(t.Context(), &kept))
	for range 3 {
		for _, did := range w.cycle() {
			require.NotContains(t, did, kept.Name)
		}
		w.clock.Step(time.Minute)
	}
	require.NoError(t, w.List(t.Context(), &pods))
	require.Len(t, pods.Items, 1)
	require.Equal(t, kept.Name, pods.Items[0].Name)
}

// withOverlay runs an updater by the shipped rules with one overlay called mine, whose changes are YAML, and with gate InPlace.
func withOverlay(t *testing.T, changes string) func(*Options) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: mine}\nspec:\n  change:"+changes), 0o600))
	return withRules(t, policy.Options{Path: file, Gates: map[string]bool{"InPlace": true}})
}
