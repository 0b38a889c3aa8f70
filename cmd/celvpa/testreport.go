package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/celvpa/celvpa/engine"
)

// testReport is what celvpa test tells, in the shape of its JSON output.
type testReport struct {
	Tables   []*tableReport  `json:"tables"`
	Rows     int             `json:"rows"`
	Failed   int             `json:"failed"`
	Coverage *coverageReport `json:"coverage,omitempty"`

	explain bool // show steps
}

type tableReport struct {
	Table string      `json:"table"`
	File  string      `json:"file"`
	Rows  []rowReport `json:"rows"`

	failed int
}

type rowReport struct {
	Row         string              `json:"row"`
	At          string              `json:"at"` // file:line:col
	Passed      bool                `json:"passed"`
	Problems    []string            `json:"problems,omitempty"`
	Differences []engine.Difference `json:"differences,omitempty"`
	Fired       []string            `json:"fired"`
	Steps       []engine.Step       `json:"steps,omitempty"`
}

type coverageReport struct {
	RuleSets  []engine.SetCoverage `json:"ruleSets"`
	Reached   int                  `json:"reached"`
	Total     int                  `json:"total"`
	Unreached []unreachedReport    `json:"unreached"`
}

type unreachedReport struct {
	engine.Unreached
	At string `json:"at"`
}

func newTestReport(results []engine.RowResult, explain bool) *testReport {
	out := &testReport{explain: explain}
	var table *tableReport
	for _, r := range results {
		if table == nil || table.Table != r.Table || table.File != r.At.File {
			table = &tableReport{Table: r.Table, File: r.At.File}
			out.Tables = append(out.Tables, table)
		}
		row := rowReport{Row: r.Row, At: r.At.String(), Passed: r.Passed(), Differences: r.Differences, Fired: append([]string{}, r.Fired...)}
		if explain {
			row.Steps = r.Steps
		}
		for _, p := range r.Problems {
			row.Problems = append(row.Problems, p.Error())
		}
		table.Rows = append(table.Rows, row)
		out.Rows++
		if !row.Passed {
			out.Failed++
			table.failed++
		}
	}
	return out
}

func (r *testReport) cover(c engine.CoverageReport) {
	r.Coverage = &coverageReport{RuleSets: c.Sets, Unreached: []unreachedReport{}}
	for _, s := range c.Sets {
		r.Coverage.Reached += s.Reached
		r.Coverage.Total += s.Total
	}
	for _, u := range c.Unreached {
		r.Coverage.Unreached = append(r.Coverage.Unreached, unreachedReport{Unreached: u, At: u.At.String()})
	}
}

// fine reports whether all passed and, where that was asked for, all was reached.
func (r *testReport) fine() bool {
	return r.Failed == 0 && (r.Coverage == nil || len(r.Coverage.Unreached) == 0)
}

func (r *testReport) writeJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeText prints a line for each table of which all rows passed, and each row that failed with what differs.
func (r *testReport) writeText(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range r.Tables {
		if t.failed == 0 && !r.explain {
			fmt.Fprintf(table, "ok\t%s\t%s\n", t.Table, counted(len(t.Rows), "row"))
			continue
		}
		if err := table.Flush(); err != nil {
			return err
		}
		for _, row := range t.Rows {
			if err := r.writeRow(out, t.Table, row); err != nil {
				return err
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Coverage != nil {
		if err := r.Coverage.writeText(out); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%s, %s, %d failed\n", counted(len(r.Tables), "table"), counted(r.Rows, "row"), r.Failed)
	return err
}

// writeRow prints a row that failed with what differs, and with --explain every row with its steps.
func (r *testReport) writeRow(out io.Writer, table string, row rowReport) error {
	switch {
	case !row.Passed:
		fmt.Fprintf(out, "FAIL %s/%s  %s\n", table, row.Row, row.At)
		if err := row.writeText(out, "     "); err != nil {
			return err
		}
	case r.explain:
		fmt.Fprintf(out, "ok   %s/%s  %s\n", table, row.Row, row.At)
	}
	if r.explain && len(row.Steps) > 0 {
		return engine.Explain(out, "     ", row.Steps)
	}
	return nil
}

func (r rowReport) writeText(out io.Writer, indent string) error {
	for _, p := range r.Problems {
		fmt.Fprintln(out, indent+strings.ReplaceAll(p, "\n", "\n"+indent))
	}
	if len(r.Problems) > 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, d := range r.Differences {
		fmt.Fprintf(table, "%s%s\twant %s\tgot %s\n", indent, d.Field, shownText(d.Want), shownText(d.Got))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%sfired: %s\n", indent, shownText(strings.Join(r.Fired, ", ")))
	return err
}

func (c *coverageReport) writeText(out io.Writer) error {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range c.RuleSets {
		fmt.Fprintf(table, "%s\t%s\t%d of %d\n", percent(s.Reached, s.Total), s.RuleSet, s.Reached, s.Total)
	}
	fmt.Fprintf(table, "%s\tall\t%d of %d\n", percent(c.Reached, c.Total), c.Reached, c.Total)
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, u := range c.Unreached {
		fmt.Fprintf(table, "unreached %s\t%s\t%s\t%s\n", u.Kind, u.Path, u.What, u.At)
	}
	if len(c.Unreached) > 0 {
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// percent rounds down, so that only what is whole shows as 100%.
func percent(part, whole int) string { return fmt.Sprintf("%d%%", 100*part/max(whole, 1)) }

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// shownText keeps an empty text visible, and a table of one line a row.
func shownText(s string) string {
	if s == "" {
		return "nothing"
	}
	return strings.ReplaceAll(s, "\n", " ")
}

// The elements of JUnit's XML that readers of reports agree on.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	File     string      `xml:"file,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (r *testReport) writeJUnit(path string) error {
	all := junitSuites{Tests: r.Rows, Failures: r.Failed}
	for _, t := range r.Tables {
		suite := junitSuite{Name: t.Table, File: t.File, Tests: len(t.Rows), Failures: t.failed}
		for _, row := range t.Rows {
			one := junitCase{Class: t.Table, Name: row.Row}
			if !row.Passed {
				var text strings.Builder
				if err := row.writeText(&text, ""); err != nil {
					return err
				}
				one.Failure = &junitFailure{Message: "failed at " + row.At, Text: text.String()}
			}
			suite.Cases = append(suite.Cases, one)
		}
		all.Suites = append(all.Suites, suite)
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	if err := os.WriteFile(path, []byte(xml.Header+string(data)+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	return nil
}
