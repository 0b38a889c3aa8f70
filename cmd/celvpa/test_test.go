package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// table writes a file with a table for container.select.
func table(t *testing.T, dir, name, rows string) string {
	t.Helper()
	path := filepath.Join(dir, name+".yaml")
	text := "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleTest\nmetadata: {name: " + name + "}\nspec:\n  point: container.select\n  rows:\n" + rows
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const (
	scaled  = "  - {name: no policy, given: {pods: 0}, expect: {do: Scale}}\n"
	ignored = "  - {name: mode Off, given: {policy: {mode: 'Off'}}, expect: {do: Ignore}}\n"
	wrong   = "  - {name: not so, given: {policy: {mode: 'Off'}}, expect: {do: Scale, rule: container-mode/mode-on, reason: ''}}\n"
)

func TestTheShippedTablesPass(t *testing.T) {
	t.Parallel()
	out, err := celvpa(t, "test", "--coverage")
	require.NoError(t, err, out)
	require.Regexp(t, `(?m)^ok  container-caps +\d+ rows$`, out)
	require.Regexp(t, `(?m)^100%  container-caps@1\.0\.0 +(\d+) of \d+$`, out)
	require.Regexp(t, `(?m)^100%  all `, out)
	require.NotContains(t, out, "unreached")
	require.Regexp(t, `\n\d+ tables, \d+ rows, 0 failed\n$`, out)
}

func TestAChangedRuleFailsTheRowsItBreaks(t *testing.T) {
	dir := ownRules(t, "container-caps.yaml", `"policy.minAllowed[resource]"}`, `"resource == 'cpu' ? policy.minAllowed.cpu + 1 : policy.minAllowed[resource]"}`)
	out, err := celvpa(t, "test", "--rules-dir", dir, "--run", "container-caps/.*(minimum|zero)")
	require.ErrorIs(t, err, errNo)
	require.Equal(t, `FAIL container-caps/below the minimum  conformance/rules/container-caps.yaml:22:5
     bound.target.now.cpu      want 2  got 2001m
     bound.lowerBound.now.cpu  want 2  got 2001m
     bound.upperBound.now.cpu  want 2  got 2001m
     fired: container-caps/policy/min-allowed
1 table, 4 rows, 1 failed
`, out)
}

func TestTablesAreNamedByFileOrFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := table(t, dir, "one", scaled+wrong)
	table(t, dir, "two", ignored)
	out, err := celvpa(t, "test", dir)
	require.ErrorIs(t, err, errNo)
	require.Equal(t, "FAIL one/not so  "+file+":8:5\n"+
		"     do      want Scale                   got Ignore\n"+
		"     rule    want container-mode/mode-on  got container-mode/mode-off\n"+
		"     reason  want nothing                 got mode-off\n"+
		"     fired: container-mode/mode-off\n"+
		"ok  two  1 row\n2 tables, 3 rows, 1 failed\n", out)
	out, err = celvpa(t, "test", filepath.Join(dir, "two.yaml"))
	require.NoError(t, err)
	require.Equal(t, "ok  two  1 row\n1 table, 1 row, 0 failed\n", out)

	broken := table(t, dir, "three", "  - {name: a, given: {policy: {mood: x}}, expect: {do: Scale}}\n"+scaled)
	out, err = celvpa(t, "test", broken)
	require.ErrorIs(t, err, errNo)
	require.Equal(t, "FAIL three/a  "+broken+":7:5\n     "+broken+`:7:32: RuleTest three, row "a": Policy has no field "mood"; known: mode, minAllowed, maxAllowed, controlledResources, controlledValues, oomBumpUpRatio, oomMinBumpUp, memoryAggregationInterval, memoryAggregationIntervalCount, memoryPerCPU, requestToLimitRatio, startupBoost
       |   - {name: a, given: {policy: {mood: x}}, expect: {do: Scale}}
       |                                ^
1 table, 2 rows, 1 failed
`, out)
}

func TestTablesAmongTheRulesTakeThePlaceOfShippedOnes(t *testing.T) {
	t.Parallel()
	dir := ownRules(t, "container-mode.yaml", "{name: scaled, do: Scale}", "{name: scaled, do: Ignore}")
	table(t, dir, "container-select", ignored)
	table(t, dir, "own", strings.Replace(scaled, "Scale", "Ignore", 1))
	out, err := celvpa(t, "test", "--rules-dir", dir)
	require.NoError(t, err, out)
	require.Regexp(t, `(?m)^ok  container-select +1 row$`, out)
	require.Regexp(t, `(?m)^ok  own +1 row$`, out)
}

func TestCoverageListsWhatNoRowReaches(t *testing.T) {
	dir := t.TempDir()
	table(t, dir, "one", ignored)
	head := func(name, point string) string {
		return "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleTest\nmetadata: {name: " + name + "}\nspec:\n  point: " + point + "\n  rows: "
	}
	write(t, dir, "two.yaml", head("two", "container.recommend")+"[{name: a, given: {bound: {target: {}}}, expect: {fired: []}}]\n")
	write(t, dir, "three.yaml", head("three", "vpa.validate")+"[{name: a, given: {object: {spec: {}}}, expect: {}}]\n")
	out, err := celvpa(t, "test", "--coverage", dir)
	require.ErrorIs(t, err, errNo, "every row passed, but not everything is reached")
	require.Regexp(t, `\n20% +container-mode@1\.0\.0 +1 of 5\n`, out)
	require.Regexp(t, `\n\d+% +all +\d+ of \d+\n`, out)
	require.Regexp(t, `\nunreached branch +container-mode/mode-off +its condition was never false +rules/container-mode\.yaml:13:28\n`, out)
	require.Regexp(t, `\nunreached decision +container-mode/scaled +it was never taken +rules/container-mode\.yaml:16:12\n`, out)
	require.Regexp(t, `\nunreached rule +container-caps/policy/min-allowed\[cpu\] +it never ran +rules/container-caps\.yaml:15:13\n`, out)
	require.Regexp(t, `\nunreached validation +vpa-object/one-recommender +nothing violated it `, out)
}

func TestResultsAreWrittenForMachines(t *testing.T) {
	dir := t.TempDir()
	file := table(t, dir, "one", scaled+wrong)
	out, err := celvpa(t, "test", file, "-o", "json", "--coverage")
	require.ErrorIs(t, err, errNo)
	var got testReport
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, 1, got.Failed)
	require.Equal(t, file, got.Tables[0].File)
	require.Equal(t, rowReport{Row: "no policy", At: file + ":7:5", Passed: true, Fired: []string{"container-mode/scaled"}}, got.Tables[0].Rows[0])
	require.Equal(t, "Ignore", got.Tables[0].Rows[1].Differences[0].Got)
	require.Equal(t, 4, got.Coverage.Reached)
	require.Equal(t, got.Coverage.Total-4, len(got.Coverage.Unreached))

	out, err = celvpa(t, "test", file, "-o", "junit")
	require.ErrorIs(t, err, errNo)
	var suites junitSuites
	require.NoError(t, xml.Unmarshal([]byte(out), &suites))
	require.Equal(t, 2, suites.Suites[0].Tests)
	require.Nil(t, suites.Suites[0].Cases[0].Failure)
	require.Equal(t, "1 fault", suites.Suites[0].Cases[1].Failure.Message)
	require.Contains(t, suites.Suites[0].Cases[1].Failure.Text, "want Scale                   got Ignore\n")
}

func TestTablesThatCannotRunAreNotAFailedTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fine := table(t, dir, "fine", scaled)
	bad := table(t, dir, "bad", "  - {name: a}\n")
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"bad YAML", []string{bad}, bad + `:7:5: RuleTest bad: row "a" has no expect`},
		{"no file", []string{filepath.Join(dir, "none.yaml")}, "none.yaml: no such file"},
		{"all is reported", []string{bad, filepath.Join(dir, "none.yaml")}, "none.yaml: no such file"},
		{"no tables", []string{t.TempDir()}, "holds no test tables"},
		{"rules instead of tables", []string{"../../rules/requests.yaml"}, "../../rules/requests.yaml:3:18: RuleSet requests: only documents of kind RuleTest are read here; name the folder of the rules with --rules-dir"},
		{"rules that do not compile", []string{fine, "--rules-dir", ownRules(t, "requests.yaml", `"recommended[resource]"}`, `"recomended[resource]"}`)}, "undeclared reference to 'recomended'"},
		{"no such row", []string{fine, "--run", "nothing"}, "no row matches --run nothing"},
		{"a bad expression", []string{"--run", "("}, "--run: error parsing regexp"},
		{"a bad output", []string{"-o", "xml"}, `--output is "xml"; use table, json, yaml, junit or github`},
		{"a bad gate", []string{"--feature-gates", "X=true"}, `there is no gate "X"`},
		{"no such pipeline", []string{"--pipeline", "mine"}, `no pipeline "mine"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := celvpa(t, append([]string{"test"}, tt.args...)...)
			require.ErrorContains(t, err, tt.want)
			require.NotErrorIs(t, err, errNo)
		})
	}
}

func TestGatesOfTheCommandAreThoseOfTables(t *testing.T) {
	out, err := celvpa(t, "test", "--feature-gates", "InPlace=true", "--run", "vpa-gates/InPlace with its gate off")
	require.ErrorIs(t, err, errNo, "the table says nothing about the gate")
	require.Contains(t, out, "violations[0]  want rule: vpa-gates/in-place, ")
}
