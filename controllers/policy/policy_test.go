package policy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

func TestShippedRulesCompile(t *testing.T) {
	book, err := Load(Options{Cache: &compiledSets})
	require.NoError(t, err)
	require.Equal(t, "default@1.0.0", book.Default().Pipeline())
}

func TestDescribeRules(t *testing.T) {
	book, err := Load(Options{Cache: &compiledSets})
	require.NoError(t, err)
	plan := book.Default()
	require.Equal(t, answers.Rules{Pipeline: "default@1.0.0", Digest: plan.Digest()}, DescribeRules(compile.Selection{Plan: plan}))
	got := DescribeRules(compile.Selection{
		Plan: plan, Shadows: []compile.Shadow{{Overlay: "tried", Plan: plan}}, Unevaluated: []error{errors.New("overlay broken: why")},
		Err: errors.New("pipeline gone@1.0.0 is not loaded"),
	})
	require.Equal(t, []string{"tried"}, got.Audited)
	require.Equal(t, []string{"overlay broken: why"}, got.Unevaluated)
	require.Equal(t, "pipeline gone@1.0.0 is not loaded", got.Fault)
	require.Empty(t, DescribeRules(compile.Selection{}), "no rules were chosen, because of a panic")
}

func TestOverlaysApplyAndFaultyOnesAreNamed(t *testing.T) {
	book, err := Load(Options{Cache: &compiledSets})
	require.NoError(t, err)
	next, err := WithOverlays(book, []rulesv1alpha1.RuleOverlay{
		marginOverlay("broken", 1, `"much"`, "a"), marginOverlay("fine", 1, "0.3", "a"),
	})
	require.ErrorContains(t, err, `RuleOverlay broken cannot be used: RuleOverlay/broken:8:32: RuleSet estimate@1.0.0: param marginFraction: "much" is not a finite number`)
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}
	require.Equal(t, []string{"fine"}, For(next, v).Plan.Overlays())
	require.Empty(t, For(book, v).Plan.Overlays(), "the rules that were given stay as they are")
}

func TestRulesDecideWhichOfTwoVPAsControlsAPod(t *testing.T) {
	vpa := func(name string, created time.Time, labels map[string]string) *vpav1.VerticalPodAutoscaler {
		return &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(created), Labels: labels}}
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	old, young := vpa("old", at, nil), vpa("a-young", at.Add(time.Second), map[string]string{"tier": "gold"})

	shipped, err := Load(Options{})
	require.NoError(t, err)
	compare := Precedence(shipped, logr.Discard())
	require.Negative(t, compare(old, young), "the older one")
	require.Positive(t, compare(young, old))
	require.Negative(t, compare(vpa("a", at, nil), vpa("b", at, nil)), "by name where they are of one age")
	require.Negative(t, compare(vpa("b", time.Time{}, nil), old), "creation time unknown")

	file := filepath.Join(t.TempDir(), "gold.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: gold-first}
spec:
  match: {vpaSelector: {matchLabels: {tier: gold}}}
  change: [{replace: vpa-order/age/oldest-first, rule: {name: gold, set: {order.first: "1"}}}]
`), 0o600))
	own, err := Load(Options{Path: file})
	require.NoError(t, err)
	require.Positive(t, Precedence(own, logr.Discard())(old, young), "an overlay that puts VPAs of a label first")
}
