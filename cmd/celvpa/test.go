package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	shipped "github.com/celvpa/celvpa/conformance/rules"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/source"
)

// testOptions hold the flags of celvpa test.
type testOptions struct {
	run      string
	coverage bool
	explain  bool
	junit    string
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
  celvpa test --junit report.xml
  celvpa test --rules-dir my-rules -o github         annotations for GitHub Actions`,
		RunE: func(cmd *cobra.Command, paths []string) error { return runTests(cmd.OutOrStdout(), o, paths) },
	}
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "run only rows whose table/row matches this regular expression")
	f.BoolVar(&o.coverage, "coverage", false, "show which rules, branches, decisions and validations no row reaches")
	f.StringVar(&o.junit, "junit", "", "also write the results to this file, as JUnit XML")
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
	if o.junit != "" {
		if err := writeJUnit(o.junit, checks); err != nil {
			return err
		}
	}
	if err := o.print(out, tests, checks.or(map[string]func(*page){"table": tests.print})); err != nil {
		return err
	}
	if !tests.fine() {
		return errNo
	}
	return nil
}

// writeJUnit writes a report to a file.
func writeJUnit(path string, r *report) error {
	var text bytes.Buffer
	p := newPage(&text)
	r.junit(p)
	err := cmp.Or(p.err, p.Flush())
	if err == nil {
		err = os.WriteFile(path, text.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
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
