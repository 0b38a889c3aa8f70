package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/aeps"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/ruletest"
)

// TestTheShippedRulesPassTheirTablesWhichReachEveryBranch is the gate for every change of a shipped rule.
func TestTheShippedRulesPassTheirTablesWhichReachEveryBranch(t *testing.T) {
	tables, err := document.LoadTests(document.Layer{FS: FS, Dir: Dir})
	require.NoError(t, err)
	shipped, err := policy.Open(policy.Options{})
	require.NoError(t, err)
	coverage := engine.NewCoverage()
	require.NoError(t, ruletest.Failures(shipped.Test(tables, policy.TestOptions{Coverage: coverage})))

	report := coverage.Report()
	require.Len(t, report.Sets, len(shipped.Library.RuleSets), "every shipped rule set is in the pipeline")
	var unreached []string
	for _, u := range report.Unreached {
		unreached = append(unreached, fmt.Sprintf("%s: %s %s: %s", u.At, u.Kind, u.Path, u.What))
	}
	require.Empty(t, unreached, "outcomes that no row reaches: add one to a table in this folder")
}

// TestShippedDecisionsThatLeaveThingsAsTheyAreHaveAClass, which explanations and metrics show. Rows of operators may lack it.
func TestShippedDecisionsThatLeaveThingsAsTheyAreHaveAClass(t *testing.T) {
	shipped, err := policy.Open(policy.Options{})
	require.NoError(t, err)
	var missing []string
	registry, err := policy.Registry()
	require.NoError(t, err)
	points := registry.PointsByName()
	for _, set := range shipped.Library.RuleSets {
		classed := map[string]bool{}
		for _, o := range points[set.Point.Value].Outcomes {
			classed[o.Name] = o.Classed
		}
		for i := range set.Decisions {
			if d := &set.Decisions[i]; classed[d.Do.Value] && d.Class.IsZero() {
				missing = append(missing, fmt.Sprintf("%s: decision %s/%s", d.Name.Pos, set.Name.Value, d.Name.Value))
			}
		}
	}
	require.Empty(t, missing, "rows without a class: docs/rules.md says which to give them")
}

// TestTheTableOfTheAEPsHoldsTheirManifests as the files have them, with the gates and verdicts that are listed there.
func TestTheTableOfTheAEPsHoldsTheirManifests(t *testing.T) {
	var table struct {
		Spec struct {
			Rows []struct {
				Name   string
				Gates  map[string]bool
				Given  struct{ Object map[string]any }
				Expect struct {
					Violations []struct{ Rule, Field, Severity string }
				}
			}
		}
	}
	read := func(data []byte, err error, into any) {
		t.Helper()
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(data, into))
	}
	data, err := FS.ReadFile("aeps.yaml")
	read(data, err, &table)
	require.Len(t, table.Spec.Rows, len(aeps.Manifests), "one row a manifest")
	for i, m := range aeps.Manifests {
		row := table.Spec.Rows[i]
		require.True(t, strings.HasPrefix(row.Name, strings.TrimSuffix(m.File, ".yaml")+": "), "row %q is not that of %s", row.Name, m.File)

		var manifest map[string]any
		data, err := aeps.FS.ReadFile(m.File)
		read(data, err, &manifest)
		require.Equal(t, manifest, row.Given.Object, m.File)

		var gates map[string]bool
		if m.Gate != "" {
			gates = map[string]bool{m.Gate: true}
		}
		require.Equal(t, gates, row.Gates, m.File)

		var refused string
		var warned []string
		for _, v := range row.Expect.Violations {
			if v.Severity == document.SeverityWarn {
				warned = append(warned, v.Field)
			} else {
				refused = v.Rule
			}
		}
		require.Equal(t, m.Rule, refused, m.File)
		require.Equal(t, m.Warned, warned, m.File)
	}
}
