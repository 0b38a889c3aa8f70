package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/ruletest"
	"github.com/celvpa/celvpa/engine/source"
)

// Regression: rows that run on the second set of rules only, or on none, were left out.
func TestRowsAreComparedByWhereTheyRun(t *testing.T) {
	at := source.Position{File: "t.yaml", Line: 3, Col: 5}
	ran := func(answer ...string) ruletest.RowResult {
		return ruletest.RowResult{Table: "t", Row: "r", At: at, Answer: answer}
	}
	stuck := func(why ...string) ruletest.RowResult {
		out := ruletest.RowResult{Table: "t", Row: "r", At: at}
		for _, reason := range why {
			out.Problems = append(out.Problems, &source.Problem{Message: reason})
		}
		return out
	}
	for name, tt := range map[string]struct {
		before, after ruletest.RowResult
		want          []string
	}{
		"both, with the same answer": {ran("a = 1"), ran("a = 1"), nil},
		"both, with another answer":  {ran("a = 1"), ran("a = 2"), []string{"t/r (t.yaml:3:5)", "  a = 1 → 2"}},
		"the first only":             {ran("a = 1"), stuck("no fact b"), []string{"t/r (t.yaml:3:5) no longer runs: no fact b"}},
		"the first only, for two reasons, one of two lines": {ran("a = 1"), stuck("no fact b", "no param c:\nc"),
			[]string{"t/r (t.yaml:3:5) no longer runs: no fact b; no param c:", "  c"}},
		"the second only":                  {stuck("no fact b"), ran("a = 1", "b = 2"), []string{"t/r (t.yaml:3:5) is new", "  a = 1", "  b = 2"}},
		"the second only, with no outcome": {stuck("no fact b"), ran(), []string{"t/r (t.yaml:3:5) is new"}},
		"neither":                          {stuck("no fact b"), stuck("no fact b"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, changedAnswers([]ruletest.RowResult{tt.before}, []ruletest.RowResult{tt.after}))
		})
	}
}

const roomyOverlay = "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: roomy}\nspec: {change: [{params: {estimate.marginFraction: 0.20}}]}\n"

// Regression: "nothing changes" was said of rows that could not run, with exit code 0.
func TestRowsThatCannotRunAreListedAndEndWithAnError(t *testing.T) {
	const given, expect = "given: {bound: {target: {}}", "    expect: {bound: {target: {now: {cpu: 1150m}}}}\n"
	row := func(name, more string) string { return "  - name: " + name + "\n    " + more + "\n" + expect }
	const changed = "answers with overlay roomy:\n  margin/target (t.yaml:8:5)\n    bound.target.now.cpu = 1150m → 1200m\n    bound.target.now.memory = 1234803097 → 1288490188\n"
	const param = `cannot run: the rules do not compile as it asks for them: no parameter "estimate.marginFractionn" in pipeline default@1.0.0: `
	const overlays = "{name: margin}\nspec:\n  overlays: [roomy]\n"
	for name, tt := range map[string]struct {
		table, out, fails string
		paths             []string // of tables; none = t.yaml
	}{
		"all rows run": {table: ownTable, out: "answers of the test tables: nothing changes\n" + changed},
		"a misspelled param": {table: ownTable + row("typo", "params: {estimate.marginFractionn: 0.2}\n    "+given+"}"),
			out: "answers of the test tables:\n  margin/typo (t.yaml:11:5) " + param, fails: "no set of rules can run 1 row of the test tables; the answer says which, and why"},
		"two misspelled facts": {table: ownTable + row("one", given+", usagee: {}}") + row("two", given+", histori: {}}"),
			out:   "answers of the test tables:\n  margin/one (t.yaml:11:5) cannot run: container.estimate has no fact or scope \"usagee\"; known: ",
			fails: "no set of rules can run 2 rows of the test tables; the answer says which, and why"},
		"an overlay that only the second has": {table: strings.Replace(ownTable, "{name: margin}\nspec:\n", overlays, 1),
			out: "answers of the test tables:\n  margin/target (t.yaml:9:5) is new\n    bound.target.now.cpu = 1200m\n    bound.target.now.memory = 1288490188\nanswers with overlay roomy: nothing changes\n"},
		"a file that cannot be read": {table: ownTable, paths: []string{"t.yaml", "missing.yaml"},
			out: "answers of the test tables: nothing changes\n" + changed, fails: "cannot read missing.yaml: no such file or directory"},
		"a table that is read in part is left out": {table: strings.Replace(ownTable, "  - name: target\n", "  - name: target\n    gates: 7\n", 1),
			fails: "t.yaml:9:12: RuleTest margin: expected a mapping from name to value"},
		"another file of the folder is not": {table: strings.Replace(ownTable, "  - name: target\n", "  - name: target\n    gates: 7\n", 1), paths: []string{"."},
			out:   "answers of the test tables: nothing changes\nanswers with overlay roomy:\n  other/target (other.yaml:8:5)\n",
			fails: "t.yaml:9:12: RuleTest margin: expected a mapping from name to value"},
		"no file that can be read": {table: ownTable, paths: []string{"missing.yaml"}, fails: "cannot read missing.yaml: no such file or directory"},
		"a file that cannot be read, and a row that cannot run": {table: ownTable + row("typo", given+", usagee: {}}"), paths: []string{"missing.yaml", "t.yaml"},
			out: "  margin/typo (t.yaml:11:5) cannot run: ", fails: "cannot read missing.yaml: no such file or directory\nno set of rules can run 1 row of the test tables; "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			rules := t.TempDir()
			write(t, rules, "roomy.yaml", roomyOverlay)
			write(t, dir, "t.yaml", tt.table)
			write(t, dir, "other.yaml", strings.Replace(ownTable, "{name: margin}", "{name: other}", 1))
			if len(tt.paths) == 0 {
				tt.paths = []string{"t.yaml"}
			}
			args := []string{"rules", "diff", "shipped", rules, "--tests", strings.Join(tt.paths, ",")}
			out, err := celvpa(t, args...)
			requireEnd(t, err, tt.fails, false)
			require.Contains(t, out, "overlay roomy (Enforce, for all) on default@1.0.0 is new:\n")
			require.Contains(t, out, tt.out)
			require.Equal(t, tt.out != "", strings.Contains(out, "\nanswers "), "without tables there are no answers")
			require.LessOrEqual(t, strings.Count(out, "margin/typo"), 1, "a row is listed once")

			asJSON, err := celvpa(t, append(args, "-o", "json")...)
			requireEnd(t, err, tt.fails, false)
			var got ruleDiff
			require.NoError(t, json.Unmarshal([]byte(asJSON), &got))
			var again strings.Builder
			page := newPage(&again)
			got.print(page)
			require.NoError(t, page.Flush())
			require.Equal(t, out, again.String(), "JSON says the same")
		})
	}
}

// TestARowThatRunsWithAnOverlayOnlyIsNewThere, and no fault: a table may ask for what an overlay brings.
func TestARowThatRunsWithAnOverlayOnlyIsNewThere(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "o.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: extra}\nspec:\n  mode: Audit\n  change:\n  - after: estimate\n    ruleSet: extra@1.0.0\n")
	write(t, dir, "s.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: extra}\nspec:\n  version: 1.0.0\n  point: container.estimate\n  params: [{name: more, type: double, default: 0.1}]\n  stages: [{name: more, rules: [{name: note, when: params.more > 1.0, note: much}]}]\n")
	table := write(t, t.TempDir(), "t.yaml", strings.Replace(ownTable, "  - name: target\n", "  - name: target\n    params: {extra.more: 0.2}\n", 1))
	out, err := celvpa(t, "rules", "diff", "shipped", dir, "--tests", table)
	require.NoError(t, err, out)
	require.Contains(t, out, "answers of the test tables: nothing changes\nanswers with overlay extra:\n  margin/target ("+table+":8:5) is new\n")
}
