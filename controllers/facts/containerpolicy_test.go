package facts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func policiesOf(names ...string) *vpav1.PodResourcePolicy {
	out := &vpav1.PodResourcePolicy{}
	for _, name := range names {
		out.ContainerPolicies = append(out.ContainerPolicies, vpav1.ContainerResourcePolicy{ContainerName: name})
	}
	return out
}

func TestAContainersOwnPolicyIsNeverMergedWithTheWildcard(t *testing.T) {
	rules, p := facts.PolicyRulesOf(shippedPlan(t)), policiesOf("*", "a", "a", "*")
	require.Same(t, &p.ContainerPolicies[1], rules.For(p, "a"))
	require.Same(t, &p.ContainerPolicies[3], rules.For(p, "b"), "the last wildcard")
	require.Nil(t, rules.For(nil, "a"))
	require.Nil(t, rules.For(&vpav1.PodResourcePolicy{}, "a"))
	require.Nil(t, rules.For(policiesOf("c"), "a"))
}

func TestRulesSayWhichPolicyIsAContainers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: wildcards-count-for-nothing}
spec:
  change: [{disable: container-policy/wildcard}]
`), 0o600))
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: file})
	require.NoError(t, err)
	plan, err := book.Everywhere()
	require.NoError(t, err)
	p := policiesOf("*", "a")
	require.Same(t, &p.ContainerPolicies[1], facts.PolicyRulesOf(plan).For(p, "a"))
	require.Nil(t, facts.PolicyRulesOf(plan).For(p, "b"))
	require.NotNil(t, facts.PolicyRulesOf(shippedPlan(t)).For(p, "b"), "other plans remember their own answers")
}

func BenchmarkPolicyRulesFor(b *testing.B) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
	require.NoError(b, err)
	plan, p := book.Default(), policiesOf("*", "a", "b")
	b.ReportAllocs()
	for b.Loop() {
		if facts.PolicyRulesOf(plan).For(p, "b") == nil {
			b.Fatal("none")
		}
	}
}
