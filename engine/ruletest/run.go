// Package ruletest runs test tables through the plans of a host and reports unexpected results.
package ruletest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// Runner runs test tables.
type Runner struct {
	Registry *registry.Registry
	// Plans compiles a row's pipeline (empty = the caller's own) with overlays for the table's
	// point, with gates and params over the caller's own. It is called once per combination.
	Plans func(o compile.Options, overlays []string) (*engine.Plan, error)
	// Match selects rows; nil = all.
	Match func(table, row string) bool
	// Coverage collects the outcomes that rows reach; nil = none.
	Coverage *engine.Coverage
}

// RowResult is the result of one row of a test table.
type RowResult struct {
	Table string
	Row   string
	At    source.Position
	// Problems say why the row could not run.
	Problems []*source.Problem
	// Differences are the results that the row does not expect.
	Differences []Difference
	// Answer lists all results, one per line: the writable fields, the decision, or the violations.
	Answer []string
	// Steps are what rules did, in order.
	Steps []engine.Step
	// Fired are the rules that changed or noted something, decided, or were violated, in order.
	Fired []string
}

// Passed reports whether the row ran and met its expectations.
func (r RowResult) Passed() bool { return len(r.Problems) == 0 && len(r.Differences) == 0 }

// Run runs all matching rows, in order. A row that cannot be read fails alone.
func (t *Runner) Run(tables []*document.RuleTest) []RowResult {
	plans := &planCache{registry: t.Registry, compile: t.Plans, plans: map[string]compiledPlan{}}
	var out []RowResult
	for _, table := range tables {
		for i := range table.Rows {
			if row := &table.Rows[i]; t.Match == nil || t.Match(table.Name.Value, row.Name.Value) {
				out = append(out, t.row(table, row, plans))
			}
		}
	}
	return out
}

func (t *Runner) row(table *document.RuleTest, row *document.TestRow, plans *planCache) RowResult {
	result := RowResult{Table: table.Name.Value, Row: row.Name.Value, At: row.At}
	ps := &source.Collector{}
	d := &document.Decoder{File: table.Name.Pos.File, Lines: table.Name.Lines(), Subject: rowSubject(result.Table, result.Row), Problems: ps}
	r := &factReader{Decoder: d, reg: t.Registry, row: source.NewScalar("", row.At, 0, d.Lines)}
	plan, err := plans.get(table, row)
	if err != nil {
		r.Problems.At(r.row, r.Subject, "the rules do not compile as it asks for them: "+err.Error())
	}
	run := t.prepare(table, row, r, plan, &engine.Trace{})
	if len(ps.List) > 0 {
		ps.Sort()
		result.Problems = ps.List
		return result
	}
	outcome := run()
	result.Fired, result.Differences, result.Answer = outcome.fired, outcome.differences, outcome.answer(t.Registry)
	result.Steps = outcome.trace.Steps()
	if t.Coverage != nil {
		// Folded plans drop rules that cannot fire, so measure coverage with CEL's evaluator. Its
		// answer must be the same.
		t.Coverage.Ran(plan, table.Point.Value)
		plain := t.prepare(table, row, r, plan.Interpreted(), &engine.Trace{Coverage: t.Coverage})().answer(t.Registry)
		if !slices.Equal(plain, result.Answer) {
			result.Differences = append(result.Differences, Difference{Field: "CEL's evaluator",
				Want: strings.Join(plain, ", "), Got: strings.Join(result.Answer, ", ")})
		}
	}
	return result
}

// prepare reads a row and returns its runner; do not call it if there are problems.
func (t *Runner) prepare(table *document.RuleTest, row *document.TestRow, r *factReader, plan *engine.Plan, trace *engine.Trace) func() *testRun {
	point := t.Registry.PointsByName()[table.Point.Value]
	if point == nil {
		r.unknown(table.Point, "no point", slices.Sorted(maps.Keys(t.Registry.PointsByName())))
		return nil
	}
	given := document.Laid(table.Given, row.Given)
	outcome := &testRun{trace: trace}
	var run func()
	switch point.Kind {
	case registry.StagePoint:
		outcome.facts = r.facts(point, given)
		run = func() { outcome.failed = plan.RunStages(point.Name, outcome.facts, trace) }
	case registry.DecisionPoint:
		outcome.facts = r.facts(point, given)
		run = func() {
			outcome.verdict = plan.Decide(point.Name, outcome.facts, trace)
			if e := outcome.verdict.Err; e != nil {
				outcome.failed = append(outcome.failed, e)
			}
		}
	default:
		judged := r.judged(point, given)
		run = func() { outcome.violations = plan.Validate(point.Name, judged, trace) }
	}
	checks := r.expectation(point, outcome.facts, row.Expect)
	return func() *testRun {
		run()
		outcome.fired = firedRules(trace, outcome.violations)
		for _, c := range checks {
			outcome.differences = append(outcome.differences, c(outcome)...)
		}
		return outcome
	}
}

func firedRules(trace *engine.Trace, violations []engine.Violation) []string {
	var out []string
	add := func(path string) {
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	for _, s := range trace.Steps() {
		if s.Error == "" {
			add(s.Path())
		}
	}
	for _, v := range violations {
		add(v.Rule)
	}
	return out
}

type planCache struct {
	registry *registry.Registry
	compile  func(compile.Options, []string) (*engine.Plan, error)
	plans    map[string]compiledPlan
}

type compiledPlan struct {
	plan *engine.Plan
	err  error
}

func (c *planCache) get(table *document.RuleTest, row *document.TestRow) (*engine.Plan, error) {
	gates, params := map[string]bool{}, map[string]string{}
	for _, s := range slices.Concat(table.Gates, row.Gates) {
		gates[s.Name.Value], _ = strconv.ParseBool(s.Value.Value) // checked when the table was decoded
	}
	for _, s := range slices.Concat(table.Params, row.Params) {
		params[s.Name.Value] = s.Value.Value
	}
	var overlays []string
	for _, name := range table.Overlays {
		overlays = append(overlays, name.Value)
	}
	var points []string
	if c.registry.PointsByName()[table.Point.Value] != nil { // prepare reports an unknown point
		points = []string{table.Point.Value}
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%q %q %q", points, table.Pipeline.Value, overlays)
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		fmt.Fprintf(&key, " %q %v", name, gates[name])
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		fmt.Fprintf(&key, " %q=%q", name, params[name])
	}
	made, ok := c.plans[key.String()]
	if !ok {
		made.plan, made.err = c.compile(compile.Options{Pipeline: table.Pipeline.Value, Gates: gates, Params: params, Points: points}, overlays)
		c.plans[key.String()] = made
	}
	return made.plan, made.err
}

// Failures is nil if all rows passed; otherwise it lists all problems and differences by position.
func Failures(results []RowResult) error {
	ps := &source.Collector{}
	for _, r := range results {
		ps.List = append(ps.List, r.Problems...)
		for _, d := range r.Differences {
			ps.Add(&source.Problem{Pos: r.At, Subject: rowSubject(r.Table, r.Row), Message: fmt.Sprintf("%s: want %s, got %s", d.Field, d.Want, d.Got)})
		}
	}
	return ps.Err()
}

func rowSubject(table, row string) string {
	return fmt.Sprintf("%s %s, row %q", document.KindRuleTest, table, row)
}
