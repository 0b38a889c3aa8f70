package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
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

// annotated are the rules and files of annotations: "rule file" or, without a file, "rule".
func annotated(out string) (all []string) {
	for _, m := range regexp.MustCompile(`(?m)^::(?:error|warning) title=([^,:]+)(?:,file=([^,:]+))?`).FindAllStringSubmatch(out, -1) {
		all = append(all, strings.TrimSpace(m[1]+" "+m[2]))
	}
	return all
}

// TestReportsHaveTheSameFindings of each command as JUnit and as GitHub's annotations.
func TestReportsHaveTheSameFindings(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir, "in place.yaml", strings.Replace(plain, "spec: {", "spec: {updatePolicy: {updateMode: InPlace}, ", 1))
	write(t, dir, "broken.yaml", "kind: RuleSet\n")
	tests := table(t, dir, "one", scaled+wrong)
	for name, tt := range map[string]struct {
		args  []string
		want  string // one of the annotations
		tests int    // of JUnit
		least int
	}{
		"validate":            {[]string{"validate", "-f", "in place.yaml"}, "vpa-gates/in-place in place.yaml", 1, 1},
		"validate, piped":     {[]string{"validate", "-f", "-"}, "vpa-gates/in-place", 1, 1},
		"validate, absolute":  {[]string{"validate", "-f", filepath.Join(dir, "in place.yaml")}, "vpa-gates/in-place in place.yaml", 1, 1},
		"rules lint":          {[]string{"rules", "lint", "broken.yaml"}, findingLint + " broken.yaml", 1, 1},
		"test":                {[]string{"test", tests}, findingRow + " " + filepath.Base(tests), 2, 1},
		"test with coverage":  {[]string{"test", tests, "--coverage"}, findingCoverage + " rules/container-mode.yaml", 3, 2},
		"nothing is at fault": {[]string{"test", tests, "--run", "no policy"}, "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			stdin, err := os.ReadFile("in place.yaml")
			require.NoError(t, err)
			out, err := piped(t, string(stdin), append(tt.args, "-o", "github")...)
			requireEnd(t, err, "", tt.least > 0)
			require.GreaterOrEqual(t, len(annotated(out)), tt.least)
			require.Len(t, annotated(out), strings.Count(out, "\n"))
			if tt.want != "" {
				require.Contains(t, annotated(out), tt.want)
			}
			again, _ := piped(t, string(stdin), append(tt.args, "-o", "github")...)
			require.Equal(t, out, again)

			report, _ := piped(t, string(stdin), append(tt.args, "-o", "junit")...)
			var suites junitSuites
			require.NoError(t, xml.Unmarshal([]byte(report), &suites))
			require.Equal(t, tt.tests, suites.Tests)
			require.Equal(t, tt.least > 0, suites.Failures > 0)
			for _, found := range annotated(out) {
				rule, _, _ := strings.Cut(found, " ")
				require.Contains(t, report, "("+rule+")")
			}
			require.NotContains(t, out+report, dir, "paths are relative")
		})
	}
}

// TestAReportSaysThatInputIsMissing, because no findings would mean that all is well.
func TestAReportSaysThatInputIsMissing(t *testing.T) {
	out, stderr, err := run("", "validate", "-f", "missing.yaml", "-o", "github")
	require.ErrorContains(t, err, "cannot read missing.yaml")
	require.Empty(t, stderr)
	require.Equal(t, "::error title=unreadable::cannot read missing.yaml: no such file or directory\n", out)
}

// TestReportsHaveFilesThatCannotBeRead. Regression: reports had only those that could.
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

	out, _ = celvpa(t, append(args, "github")...)
	require.Equal(t, []string{"unreadable broken.yaml", "unreadable broken.yaml", "unreadable"}, annotated(out))
	require.Contains(t, out, "::error title=unreadable,file=broken.yaml,line=6::")
}
