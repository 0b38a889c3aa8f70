package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	shipped "github.com/celvpa/celvpa/conformance/rules"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/ruletest"
	"github.com/celvpa/celvpa/engine/source"
	"github.com/celvpa/celvpa/simulate"
)

// testOptions hold the flags of celvpa test.
type testOptions struct {
	run      string
	coverage bool
	explain  bool
	printer
	rules ruleOptions
}

// testCommand runs test tables on rules.
func testCommand(compile compileFunc) *cobra.Command {
	o := &testOptions{rules: ruleOptions{compile: compile}}
	cmd := &cobra.Command{
		Use:   "test [PATH…]",
		Short: "Run test tables on rules and show what differs",
		Long: `Runs test tables, documents of kind RuleTest, on the shipped rules or on those of --rules-dir. PATH is a file or a folder
with tables. Without one, the tables that ship with celvpa run, and those among the files of --rules-dir, which replace
shipped tables of the same name.

Exit code 0: every row passed; 1: a row failed, or with --coverage an outcome is reached by no row; 2: the tables or the
rules could not be read or compiled.`,
		Example: `  celvpa test                                       the shipped tables on the shipped rules
  celvpa test --rules-dir my-rules --coverage       and which of my rules no row reaches
  celvpa test my-tables --run 'container-caps/.*minimum'
  celvpa test -o junit > report.xml
  celvpa test --rules-dir my-rules -o github         annotations for GitHub Actions`,
		RunE: func(cmd *cobra.Command, paths []string) error { return runTests(cmd.OutOrStdout(), o, paths) },
	}
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "run only rows whose table/row matches this regular expression")
	f.BoolVar(&o.coverage, "coverage", false, "show which rules, branches, decisions and validations no row reaches")
	o.add(cmd, "table", append([]string{"table", "json", "yaml"}, reportForms...)...)
	f.BoolVar(&o.explain, "explain", false, "show for each row, step by step, which rule changed what, and why")
	o.rules.add(cmd)
	return cmd
}

func runTests(out io.Writer, o *testOptions, paths []string) error {
	if err := o.check(); err != nil {
		return err
	}
	matches, err := rowMatcher(o.run)
	if err != nil {
		return err
	}
	rules, err := o.rules.read(o.rules.dir)
	if err != nil {
		return err
	}
	tables, err := testTables(rules.Library, paths)
	if err != nil {
		return err
	}
	var coverage *engine.Coverage
	if o.coverage {
		coverage = engine.NewCoverage()
	}
	results := rules.Test(tables, policy.TestOptions{Match: matches, Coverage: coverage})
	if len(results) == 0 {
		return fmt.Errorf("no row matches --run %s", o.run)
	}
	tests := newTestReport(results, o.explain)
	if coverage != nil {
		tests.cover(coverage.Report())
	}
	checks := tests.checks()
	if err := o.print(out, tests, checks.or(map[string]func(*page){"table": tests.print})); err != nil {
		return err
	}
	if !tests.fine() {
		return errNo
	}
	return nil
}

// rowMatcher selects rows by a regular expression over table/row; nil = all.
func rowMatcher(expression string) (func(table, row string) bool, error) {
	if expression == "" {
		return nil, nil
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	return func(table, row string) bool { return re.MatchString(table + "/" + row) }, nil
}

// testTables loads the tables at the paths, or else the shipped ones with those among the rules laid over them.
func testTables(library *document.Library, paths []string) ([]*document.RuleTest, error) {
	if len(paths) > 0 {
		return tablesAt(paths)
	}
	tables, err := document.LoadTests(document.Layer{FS: shipped.FS, Dir: shipped.Dir})
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, t := range tables {
		at[t.Name.Value] = i
	}
	for _, own := range library.Tests {
		if i, replaces := at[own.Name.Value]; replaces {
			tables[i] = own
			continue
		}
		tables = append(tables, own)
	}
	return tables, nil
}

// tablesAt reads all paths. The error says what is wrong with any of them; the tables of files without a fault are returned even then.
func tablesAt(paths []string) ([]*document.RuleTest, error) {
	var tables []*document.RuleTest
	var errs []error
	for _, path := range paths {
		found, err := tablesOf(path)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s holds no test tables: documents of kind %s in files named *.yaml or *.yml", path, document.KindRuleTest)
		}
		if err != nil {
			errs = append(errs, err)
		}
		tables = append(tables, found...)
	}
	return tables, faults.Join(errs...)
}

func tablesOf(path string) ([]*document.RuleTest, error) {
	layer, err := policy.LayerAt(path)
	if err != nil {
		return nil, err
	}
	tables, err := document.LoadTests(layer)
	atFault := map[string]bool{}
	for _, problem := range source.Problems(err) {
		atFault[problem.Pos.File] = true
	}
	// A table that is read in part only would run, and without its gates, say, give other answers.
	return slices.DeleteFunc(tables, func(t *document.RuleTest) bool { return atFault[t.Name.Pos.File] }), err
}

// testReport is what celvpa test prints.
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
	Row         string                `json:"row"`
	At          string                `json:"at"` // file:line:col
	Passed      bool                  `json:"passed"`
	Problems    []string              `json:"problems,omitempty"`
	Differences []ruletest.Difference `json:"differences,omitempty"`
	Fired       []string              `json:"fired"`
	Steps       []engine.Step         `json:"steps,omitempty"`

	pos source.Position
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

func newTestReport(results []ruletest.RowResult, explain bool) *testReport {
	out := &testReport{explain: explain}
	var table *tableReport
	for _, r := range results {
		if table == nil || table.Table != r.Table || table.File != r.At.File {
			table = &tableReport{Table: r.Table, File: r.At.File}
			out.Tables = append(out.Tables, table)
		}
		row := rowReport{Row: r.Row, At: r.At.String(), pos: r.At, Passed: r.Passed(), Differences: r.Differences, Fired: append([]string{}, r.Fired...)}
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

// checks are the rows, and with --coverage that they reach all.
func (r *testReport) checks() *report {
	out := &report{}
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			c := check{suite: t.Table, file: t.File, name: row.Row}
			if !row.Passed {
				c.findings = []finding{{rule: findingRow, about: t.Table + "/" + row.Row, message: row.text(), at: row.pos}}
			}
			out.checks = append(out.checks, c)
		}
	}
	if r.Coverage == nil {
		return out
	}
	c := check{suite: "coverage", name: "rows reach every outcome"}
	for _, u := range r.Coverage.Unreached {
		c.findings = append(c.findings, finding{rule: findingCoverage, about: u.Path, message: "no row reaches this " + u.Kind + ": " + u.What, at: u.Unreached.At})
	}
	out.checks = append(out.checks, c)
	return out
}

// text is what is wrong with a row, in lines.
func (r rowReport) text() string {
	var text strings.Builder
	p := newPage(&text)
	r.print(p, "")
	_ = p.Flush() // a Builder takes everything
	return strings.TrimSpace(text.String())
}

// fine reports whether all passed and, where that was asked for, all was reached.
func (r *testReport) fine() bool {
	return r.Failed == 0 && (r.Coverage == nil || len(r.Coverage.Unreached) == 0)
}

// print prints a line for each table of which all rows passed, and each row that failed with what differs.
func (r *testReport) print(p *page) {
	for _, t := range r.Tables {
		if t.failed == 0 && !r.explain {
			p.row("ok", t.Table, simulate.Counted(len(t.Rows), "row"))
			continue
		}
		for _, row := range t.Rows {
			r.printRow(p, t.Table, row)
		}
	}
	if r.Coverage != nil {
		r.Coverage.print(p)
	}
	p.printf("%s, %s, %d failed\n", simulate.Counted(len(r.Tables), "table"), simulate.Counted(r.Rows, "row"), r.Failed)
}

// printRow prints a row that failed with what differs, and with --explain every row with its steps.
func (r *testReport) printRow(p *page, table string, row rowReport) {
	switch {
	case !row.Passed:
		p.printf("FAIL %s/%s  %s\n", table, row.Row, row.At)
		row.print(p, "     ")
	case r.explain:
		p.printf("ok   %s/%s  %s\n", table, row.Row, row.At)
	}
	if r.explain {
		p.steps("     ", row.Steps)
	}
}

// print prints what is wrong with a row.
func (r rowReport) print(p *page, indent string) {
	for _, problem := range r.Problems {
		p.printf("%s%s\n", indent, strings.ReplaceAll(problem, "\n", "\n"+indent))
	}
	if len(r.Problems) > 0 {
		return
	}
	for _, d := range r.Differences {
		p.row(indent+d.Field, "want "+shownText(d.Want), "got "+shownText(d.Got))
	}
	p.printf("%sfired: %s\n", indent, shownText(strings.Join(r.Fired, ", ")))
}

func (c *coverageReport) print(p *page) {
	p.printf("\n")
	for _, s := range c.RuleSets {
		p.row(percent(s.Reached, s.Total), s.RuleSet, fmt.Sprintf("%d of %d", s.Reached, s.Total))
	}
	p.row(percent(c.Reached, c.Total), "all", fmt.Sprintf("%d of %d", c.Reached, c.Total))
	p.printf("\n")
	for _, u := range c.Unreached {
		p.row("unreached "+u.Kind, u.Path, u.What, u.At)
	}
	if len(c.Unreached) > 0 {
		p.printf("\n")
	}
}

// percent rounds down, so that only what is whole shows as 100%.
func percent(part, whole int) string { return fmt.Sprintf("%d%%", 100*part/max(whole, 1)) }

// shownText keeps an empty text visible, and a table of one line a row.
func shownText(s string) string {
	if s == "" {
		return "nothing"
	}
	return strings.ReplaceAll(s, "\n", " ")
}
