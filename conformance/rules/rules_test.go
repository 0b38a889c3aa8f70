package rules

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/aeps"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/ruletest"
	"github.com/celvpa/celvpa/rules"
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

const held = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: held}
spec:
  change:
  - before: update
    decision: {name: held, when: "wouldEvict(vpa, pod, containers, change, attempt, resize)", do: Skip, class: Settled, reason: Held}
`

// TestAnOverlayCanHoldEvictionsAlone goes through all rows of pod.update: with one that skips where wouldEvict holds nothing is
// evicted, and what is resized or left alone stays so.
func TestAnOverlayCanHoldEvictionsAlone(t *testing.T) {
	tables, err := document.LoadTests(document.Layer{FS: FS, Dir: Dir})
	require.NoError(t, err)
	tables = slices.DeleteFunc(tables, func(t *document.RuleTest) bool { return t.Point.Value != facts.PodUpdate })
	shipped, err := policy.Open(policy.Options{})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "held.yaml")
	require.NoError(t, os.WriteFile(file, []byte(held), 0o600))
	rules, err := shipped.Over(file)
	require.NoError(t, err)
	before, after := rules.Test(tables, policy.TestOptions{}), rules.Test(tables, policy.TestOptions{Overlays: []string{"held"}})
	require.Len(t, after, len(before))
	does := func(r ruletest.RowResult, outcome string) bool {
		return slices.ContainsFunc(r.Answer, func(line string) bool { return strings.HasPrefix(line, "do = "+outcome+" (") })
	}
	evictions := 0
	for i := range before {
		require.False(t, does(after[i], facts.DoEvict), before[i].Row)
		switch {
		case does(before[i], facts.DoEvict):
			evictions++
			require.True(t, does(after[i], facts.DoSkip), before[i].Row)
		case !slices.Contains(after[i].Fired, "update/held"):
			require.Equal(t, before[i].Answer, after[i].Answer, before[i].Row)
		default: // it would have been evicted, had something else not held it
			require.False(t, does(before[i], facts.DoInPlace) || does(before[i], facts.DoInPlaceCPU), before[i].Row)
		}
	}
	require.Greater(t, evictions, 30)
}

// shippedLines gives the lines of each shipped rule file.
func shippedLines(t *testing.T) map[string][]string {
	t.Helper()
	files, err := fs.Glob(rules.FS, "*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[string][]string{}
	for _, name := range files {
		data, err := fs.ReadFile(rules.FS, name)
		require.NoError(t, err)
		out[name] = strings.Split(string(data), "\n")
	}
	return out
}

func TestLinesOfRulesFitAScreen(t *testing.T) {
	for name, lines := range shippedLines(t) {
		for i, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 120, "%s:%d", name, i+1)
		}
	}
}

// relates lists the rule files in which a line for CPU has one for memory beside it, with the reason.
var relates = map[string]string{
	"fit-memory-per-cpu.yaml":   "each resource is computed from the other",
	"memory-per-cpu-ratio.yaml": "each resource is computed from the other",
	"memory-per-cpu.yaml":       "each resource is computed from the other",
}

var resourceWord = regexp.MustCompile(`(?i)cpu|memory`)

// TestNothingIsSaidOnceForCPUAndOnceForMemory: an axis says it for both. A twin that is edited alone is a bug.
func TestNothingIsSaidOnceForCPUAndOnceForMemory(t *testing.T) {
	hasTwins := map[string]bool{}
	for name, lines := range shippedLines(t) {
		seen := map[string]string{}
		for i, line := range lines {
			text := strings.TrimSpace(line)
			same := resourceWord.ReplaceAllString(text, "resource")
			if same == text || strings.HasPrefix(text, "#") {
				continue
			}
			if twin, found := seen[same]; found && !strings.EqualFold(twin, text) {
				hasTwins[name] = true
				require.NotEmpty(t, relates[name], "%s:%d: %s\nis, for the other resource, %s", name, i+1, text, twin)
			}
			seen[same] = text
		}
	}
	for name := range relates {
		require.True(t, hasTwins[name], "%s has no such lines any more; take it off the list", name)
	}
}
