package policy

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/rules"
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

// TestOverlaysMatchTheKindOfTheWorkload that a VPA targets.
func TestOverlaysMatchTheKindOfTheWorkload(t *testing.T) {
	book, err := Load(Options{Path: "../../examples/cookbook/batch.yaml", Cache: &compiledSets})
	require.NoError(t, err)
	for kind, matches := range map[string]bool{"Job": true, "CronJob": true, "Deployment": false, "": false} {
		v := &vpav1.VerticalPodAutoscaler{}
		if kind != "" {
			v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{Kind: kind}
		}
		require.Equal(t, matches, len(For(book, v).Plan.Overlays()) > 0, kind)
	}
}

// TestThePipelinesThatShipAreNamed, all but the one that runs by default.
func TestThePipelinesThatShipAreNamed(t *testing.T) {
	library, err := shippedPipelines()
	require.NoError(t, err)
	var names []string
	for _, p := range library.Pipelines {
		if p.Name.Value != rules.DefaultPipeline {
			names = append(names, p.Name.Value)
		}
	}
	require.ElementsMatch(t, rules.PipelineNames, names)
}
