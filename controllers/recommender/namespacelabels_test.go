package recommender

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
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
	w := newWorld(t, policy.Options{Path: file, Labels: compile.Labels{Namespace: func(string) (map[string]string, bool) { return labels, known }}})
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

// objects are a namespace and the nodes of a cluster.
type objects struct {
	facts.Objects
	labels map[string]string
	nodes  int
}

func (o *objects) NamespaceLabels(string) (map[string]string, bool) { return o.labels, true }
func (o *objects) Nodes() (facts.NodeTotals, bool)                  { return facts.NodeTotals{Count: o.nodes}, true }

// TestChangedObjectsCountInTheNextCycle, though neither usage nor the VPA changed; rules that read none of them ask for nothing.
func TestChangedObjectsCountInTheNextCycle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "size.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: size}
spec:
  change:
  - before: container-caps
    stage:
      name: size
      each: bound
      when: namespaceObject.labels[?'tier'].orValue('') == 'front'
      rules: [{name: by-nodes, set: {now.cpu: "nodes.count * cpu('10m')"}}]
`), 0o600))
	w := newWorld(t, policy.Options{Path: file})
	of := &objects{labels: map[string]string{"tier": "batch"}, nodes: 40}
	w.Objects = of
	w.idlePod("p", "app")
	target := func() string { return w.v.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().String() }
	require.True(t, w.cycle())
	require.Equal(t, "25m", target())
	of.labels = map[string]string{"tier": "front"}
	require.True(t, w.cycle())
	require.Equal(t, "400m", target())
	of.nodes = 50
	require.True(t, w.cycle())
	require.Equal(t, "500m", target())

	w = newWorld(t, policy.Options{})
	w.Objects = &objects{} // it would panic if it were asked for a workload
	w.idlePod("p", "app")
	require.True(t, w.cycle())
	require.False(t, w.cycle())
}
