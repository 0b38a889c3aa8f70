package policy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

const byTier = `apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: by-tier}
spec:
  match: {exceptNamespaces: [left-out], namespaceSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [batch]}]}}
  change: [{params: {estimate.marginFraction: 0.3}}]
`

func inNamespace(name string) *vpav1.VerticalPodAutoscaler {
	return &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: name}}
}

// TestOverlaysMatchTheLabelsOfNamespaces, and changed labels count at once.
func TestOverlaysMatchTheLabelsOfNamespaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "by-tier.yaml")
	require.NoError(t, os.WriteFile(file, []byte(byTier), 0o600))
	known := map[string]map[string]string{"none": nil, "front": {"tier": "front"}, "batch": {"tier": "batch"}}
	asked := 0
	book, err := Load(Options{Path: file, Cache: &compiledSets, Labels: compile.Labels{Namespace: func(name string) (map[string]string, bool) {
		asked++
		labels, ok := known[name]
		return labels, ok
	}}})
	require.NoError(t, err)
	require.True(t, book.ReadsLabels())
	for name, want := range map[string][]string{"none": {"by-tier"}, "front": {"by-tier"}, "batch": nil, "unknown": nil, "left-out": nil} {
		chosen := For(book, inNamespace(name))
		require.Equal(t, want, chosen.Plan.Overlays(), name)
		require.Equal(t, name == "unknown", chosen.Unknown != nil, name)
	}
	require.Equal(t, 4, asked, "what is left out by name needs no labels")

	before := For(book, inNamespace("unknown"))
	const why = "the labels of namespace unknown are not known, so overlays with a namespaceSelector do not apply: by-tier"
	require.EqualError(t, before.Unknown, why)
	require.Equal(t, answers.Rules{Pipeline: "default@1.0.0", Digest: before.Plan.Digest(), Unevaluated: []string{why}}, DescribeRules(before))
	require.True(t, before.Same(For(book, inNamespace("unknown"))))
	known["unknown"] = nil
	require.False(t, before.Same(For(book, inNamespace("unknown"))))
	known["front"]["tier"] = "batch"
	require.Empty(t, For(book, inNamespace("front")).Plan.Overlays())

	above := marginOverlay("fine", 1, "0.4", "none")
	above.Spec.Priority = 1
	more, err := WithOverlays(book, []rulesv1alpha1.RuleOverlay{above})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"by-tier", "fine"}, For(more, inNamespace("none")).Plan.Overlays(), "overlays of the cluster keep the labels")
}

// TestOverlaysMatchTheLabelsOfWorkloads that VPAs target.
func TestOverlaysMatchTheLabelsOfWorkloads(t *testing.T) {
	known := map[string]map[string]string{"front": {"tier": "front"}, "batch": {"tier": "batch"}, "none": nil}
	book, err := Load(Options{Cache: &compiledSets, Labels: compile.Labels{Workload: func(of document.Subject) (map[string]string, bool) {
		require.Equal(t, document.Subject{Namespace: "shop", Kind: "Deployment", APIVersion: "apps/v1", Name: of.Name}, of)
		labels, ok := known[of.Name]
		return labels, ok
	}}})
	require.NoError(t, err)
	o := marginOverlay("by-tier", 1, "0.4", "shop")
	o.Spec.Match.WorkloadSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "NotIn", Values: []string{"batch"}}}}
	book, err = WithOverlays(book, []rulesv1alpha1.RuleOverlay{o})
	require.NoError(t, err)
	require.True(t, book.ReadsLabels())
	for name, want := range map[string][]string{"front": {"by-tier"}, "batch": nil, "none": {"by-tier"}, "unknown": nil} {
		v := inNamespace("shop")
		v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
		chosen := For(book, v)
		require.Equal(t, want, chosen.Plan.Overlays(), name)
		if name == "unknown" {
			require.EqualError(t, chosen.Unknown, "the labels of Deployment unknown are not known, so overlays with a workloadSelector do not apply: by-tier")
		} else {
			require.NoError(t, chosen.Unknown)
		}
	}
	require.Empty(t, For(book, inNamespace("elsewhere")).Plan.Overlays(), "what is left out by name needs no labels")
}

// TestNamespaceSelectorsOfObjects are read like those of files.
func TestNamespaceSelectorsOfObjects(t *testing.T) {
	book, err := Load(Options{Cache: &compiledSets})
	require.NoError(t, err)
	o := marginOverlay("by-tier", 1, "0.4", "a")
	o.Spec.Match = &rulesv1alpha1.RuleOverlayMatch{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}
	next, err := WithOverlays(book.WithLabels(compile.Labels{Namespace: func(string) (map[string]string, bool) { return map[string]string{"tier": "front"}, true }}), []rulesv1alpha1.RuleOverlay{o})
	require.NoError(t, err)
	require.Equal(t, []string{"by-tier"}, For(next, inNamespace("a")).Plan.Overlays())

	o.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Has"}}}
	_, err = WithOverlays(book, []rulesv1alpha1.RuleOverlay{o})
	require.ErrorContains(t, err, `RuleOverlay/by-tier:`)
	require.ErrorContains(t, err, `operator "Has"`)
}

// TestNoNamespaceIsReadForRulesThatDoNotAsk about labels.
func TestNoNamespaceIsReadForRulesThatDoNotAsk(t *testing.T) {
	asked := 0
	book, err := Load(Options{Cache: &compiledSets, Labels: compile.Labels{Namespace: func(string) (map[string]string, bool) {
		asked++
		return nil, true
	}}})
	require.NoError(t, err)
	next, err := WithOverlays(book, []rulesv1alpha1.RuleOverlay{marginOverlay("fine", 1, "0.4", "a")})
	require.NoError(t, err)
	require.False(t, next.ReadsLabels())
	require.Equal(t, []string{"fine"}, For(next, inNamespace("a")).Plan.Overlays())
	require.Empty(t, For(next, inNamespace("b")).Plan.Overlays())
	require.Zero(t, asked)
}
