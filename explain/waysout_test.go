package explain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
)

// Regression: what blocks the end of a startup boost, and an unknown update mode, had no way out.
func TestEveryRuleThatBlocksAPodSaysTheWayOut(t *testing.T) {
	library, err := policy.Shipped()
	require.NoError(t, err)
	seen := 0
	for _, set := range library.RuleSets {
		if at := set.Point.Value; at != facts.PodUpdate && at != facts.PodUnboost {
			continue
		}
		for _, d := range set.Decisions {
			if d.Class.Value == Misconfigured || d.Class.Value == Waiting {
				seen++
				require.NotEmpty(t, d.Until+d.UntilExpression.Value, "%s/%s", set.Name.Value, d.Name.Value)
			}
		}
	}
	require.Greater(t, seen, 10)
}
