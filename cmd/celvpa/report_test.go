package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/source"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// TestGitHubAnnotationsAreEscaped: a colon or comma would end a property, and a line break the command.
func TestGitHubAnnotationsAreEscaped(t *testing.T) {
	r := &report{checks: []check{{findings: []finding{
		{rule: "a/b", about: "web/shop", message: "50% of: x, y\r\nz", at: source.Position{File: "a,b:c%.yaml", Line: 3, Col: 5}},
		{rule: "w", message: "m", at: source.Position{File: "x.yaml"}, warning: true},
		{rule: "s", message: "piped", at: source.Position{File: "standard input", Line: 1}},
	}}}}
	require.Equal(t, `::error title=a/b,file=a%2Cb%3Ac%25.yaml,line=3,col=5::web/shop: 50%25 of: x, y%0D%0Az
::warning title=w,file=x.yaml::m
::error title=s::piped
`, printed(t, r, "github"))
}

func printed(t *testing.T, r *report, form string) string {
	t.Helper()
	var out strings.Builder
	p := &printer{form: form}
	require.NoError(t, p.print(&out, nil, r.or(map[string]func(*page){})))
	return out.String()
}

// TestFindingsStandWhereTheFieldIs, and not only where the object begins.
func TestFindingsStandWhereTheFieldIs(t *testing.T) {
	t.Chdir("testdata/validate")
	out, err := celvpa(t, "validate", "-f", "mistakes.yaml", "-o", "github")
	require.ErrorIs(t, err, errNo)
	file, err := os.ReadFile("mistakes.yaml")
	require.NoError(t, err)
	lines := strings.Split(string(file), "\n")
	at := 0
	for i, line := range lines {
		if strings.Contains(line, "minReplicas") {
			at = i + 1
			break
		}
	}
	require.Positive(t, at)
	require.Regexp(t, `(?m)^::error title=schema,file=mistakes\.yaml,line=`+strconv.Itoa(at)+`,col=\d+::web/types: spec\.updatePolicy\.minReplicas: `, out)
	require.Regexp(t, `(?m)^::warning title=vpa-object/auto-is-deprecated,file=mistakes\.yaml,line=\d+,col=\d+::default/old-mode: `, out)

	// Regression: a number that its field cannot hold was reported without a field, on the first line of the object.
	huge := strings.Replace(plain, "spec: {", "spec: {\n  updatePolicy: {updateMode: Initial,\n    minReplicas: 3000000000},\n  ", 1)
	out, err = celvpa(t, "validate", "-f", write(t, t.TempDir(), "vpa.yaml", huge), "-o", "github")
	require.ErrorIs(t, err, errNo)
	require.Regexp(t, `^::error title=schema,file=\S+,line=6,col=5::default/plain: spec\.updatePolicy\.minReplicas: Invalid value: 3000000000: `, out)
}

func TestAFaultOfAWholeObjectNamesNoField(t *testing.T) {
	r := validationReport(&simulate.Validation{Items: []simulate.Judgement{{Object: "web/shop", Causes: []vpareview.Cause{{Rule: "schema", Message: "cannot be read"}}}}}, nil)
	require.Equal(t, "::error title=schema::web/shop: cannot be read\n", printed(t, r, "github"))
}

// TestReportsHaveTheSameFindings of each command in each form: SARIF, JUnit and GitHub.
func TestReportsHaveTheSameFindings(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir, "in place.yaml", strings.Replace(plain, "spec: {", "spec: {updatePolicy: {updateMode: InPlace}, ", 1))
	write(t, dir, "broken.yaml", "kind: RuleSet\n")
	tests := table(t, dir, "one", scaled+wrong)
	for name, tt := range map[string]struct {
		args  []string
		rule  string
		file  string // as a URI
		tests int    // of JUnit
		least int
	}{
		"validate":            {[]string{"validate", "-f", "in place.yaml"}, "vpa-gates/in-place", "in%20place.yaml", 1, 1},
		"validate, piped":     {[]string{"validate", "-f", "-"}, "vpa-gates/in-place", "", 1, 1},
		"validate, absolute":  {[]string{"validate", "-f", filepath.Join(dir, "in place.yaml")}, "vpa-gates/in-place", "in%20place.yaml", 1, 1},
		"rules lint":          {[]string{"rules", "lint", "broken.yaml"}, findingLint, "broken.yaml", 1, 1},
		"test":                {[]string{"test", tests}, findingRow, filepath.Base(tests), 2, 1},
		"test with coverage":  {[]string{"test", tests, "--coverage"}, findingCoverage, "", 3, 2},
		"nothing is at fault": {[]string{"test", tests, "--run", "no policy"}, "", "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			stdin, err := os.ReadFile("in place.yaml")
			require.NoError(t, err)
			out, err := piped(t, string(stdin), append(tt.args, "-o", "sarif")...)
			requireEnd(t, err, "", tt.least > 0)
			results := requireSARIF(t, out).Runs[0].Results
			require.GreaterOrEqual(t, len(results), tt.least)
			var rules, files []string
			for _, r := range results {
				rules = append(rules, r.RuleID)
				if at := r.Locations[0].Physical; at != nil {
					files = append(files, at.Artifact.URI)
				}
			}
			if tt.rule != "" {
				require.Contains(t, rules, tt.rule)
			}
			if tt.file != "" {
				require.Contains(t, files, tt.file)
			}
			again, _ := piped(t, string(stdin), append(tt.args, "-o", "sarif")...)
			require.Equal(t, out, again)

			out, _ = piped(t, string(stdin), append(tt.args, "-o", "github")...)
			require.Equal(t, len(results), strings.Count(out, "::error ")+strings.Count(out, "::warning "))
			out, _ = piped(t, string(stdin), append(tt.args, "-o", "junit")...)
			var suites junitSuites
			require.NoError(t, xml.Unmarshal([]byte(out), &suites))
			require.Equal(t, tt.tests, suites.Tests)
			require.Equal(t, tt.least > 0, suites.Failures > 0)
			require.NotContains(t, out, dir, "paths are relative")
		})
	}
}

// requireSARIF checks what the schema asks of a log beside its fields' types. conformance/sarif checks logs by the schema.
func requireSARIF(t *testing.T, text string) sarifLog {
	t.Helper()
	var log sarifLog
	require.NoError(t, json.Unmarshal([]byte(text), &log))
	require.Equal(t, "2.1.0", log.Version)
	for _, r := range log.Runs[0].Results {
		require.Equal(t, r.RuleID, log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID)
		require.Contains(t, []string{"error", "warning"}, r.Level)
		require.NotEmpty(t, r.Message.Text)
		if at := r.Locations[0].Physical; at != nil && at.Region != nil {
			require.Positive(t, at.Region.StartLine)
		}
	}
	return log
}

// TestAReportSaysThatInputIsMissing, because no findings would mean that all is well.
func TestAReportSaysThatInputIsMissing(t *testing.T) {
	out, stderr, err := run("", "validate", "-f", "missing.yaml", "-o", "sarif")
	require.ErrorContains(t, err, "cannot read missing.yaml")
	require.Empty(t, stderr)
	results := requireSARIF(t, out).Runs[0].Results
	require.Contains(t, out, `"executionSuccessful": false`)
	require.Len(t, results, 1)
	require.Equal(t, "cannot read missing.yaml: no such file or directory", results[0].Message.Text)
}

// TestReportsHaveFilesThatCannotBeRead. Regression: JUnit and SARIF had only those that could.
func TestReportsHaveFilesThatCannotBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", "vpa.yaml", plain)
	write(t, ".", "broken.yaml", plain+"---\nkind: VerticalPodAutoscaler\n---\nkind: VerticalPodAutoscaler\n")
	args := []string{"validate", "-f", "vpa.yaml", "-f", "broken.yaml", "-f", "missing.yaml", "-o"}
	out, err := celvpa(t, append(args, "junit")...)
	require.ErrorContains(t, err, "broken.yaml:6: not a manifest")
	var suites junitSuites
	require.NoError(t, xml.Unmarshal([]byte(out), &suites))
	require.Equal(t, []int{4, 2}, []int{suites.Tests, suites.Failures}, "two objects, a file and what is missing")
	broken, missing := suites.Suites[len(suites.Suites)-2], suites.Suites[len(suites.Suites)-1]
	require.Equal(t, []string{"broken.yaml", "broken.yaml"}, []string{broken.Name, broken.File})
	last := broken.Cases[len(broken.Cases)-1]
	require.Equal(t, "can be read", last.Name)
	require.Equal(t, "broken.yaml:6: not a manifest: it needs apiVersion and kind (unreadable)\n"+
		"broken.yaml:8: not a manifest: it needs apiVersion and kind (unreadable)\n", last.Failure.Text)
	require.Equal(t, []string{"input", ""}, []string{missing.Name, missing.File})
	require.Equal(t, "cannot read missing.yaml: no such file or directory (unreadable)\n", missing.Cases[0].Failure.Text)

	out, _ = celvpa(t, append(args, "sarif")...)
	results := requireSARIF(t, out).Runs[0].Results
	require.Len(t, results, 3)
	require.Equal(t, findingUnread, results[0].RuleID)
	require.Equal(t, []any{"broken.yaml", 6}, []any{results[0].Locations[0].Physical.Artifact.URI, results[0].Locations[0].Physical.Region.StartLine})
	require.Nil(t, results[2].Locations[0].Physical)
}
