package rules

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
)

// TestTheShippedRulesPassTheirTablesWhichReachEveryBranch is the gate for every change of a shipped rule.
func TestTheShippedRulesPassTheirTablesWhichReachEveryBranch(t *testing.T) {
	tables, err := engine.LoadTests(engine.Layer{FS: FS, Dir: Dir})
	require.NoError(t, err)
	shipped, err := policy.Open(policy.Options{})
	require.NoError(t, err)
	coverage := engine.NewCoverage()
	require.NoError(t, engine.Failures(shipped.Test(tables, policy.TestOptions{Coverage: coverage})))

	report := coverage.Report()
	require.Len(t, report.Sets, len(shipped.Library.RuleSets), "every shipped rule set is in the pipeline")
	var unreached []string
	for _, u := range report.Unreached {
		unreached = append(unreached, fmt.Sprintf("%s: %s %s: %s", u.At, u.Kind, u.Path, u.What))
	}
	require.Empty(t, unreached, "outcomes that no row reaches: add one to a table in this folder")
}
