package policy

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine/compile"
)

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
