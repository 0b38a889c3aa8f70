// Package ruletest runs test tables through the same plans as a host does, and tells for each row
// what differs from what it expects.
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
	// Plans compiles what a row asks for: a pipeline (empty = the caller's own) with overlays, and with gates and params
	// laid over the caller's own, at the point that the row's table is about. It is called once for each combination that
	// occurs.
	Plans func(compile.Options) (*engine.Plan, error)
	// Match selects rows; nil = all.
	Match func(table, row string) bool
	// Coverage notes which outcomes of rules the rows reach; nil = nothing is noted.
	Coverage *engine.Coverage
}

// RowResult is how one row of a test table fared.
type RowResult struct {
	Table string
	Row   string
	At    source.Position
	// Problems say why the row could not be read, and so did not run.
	Problems []*source.Problem
	// Differences are what came out otherwise than expected.
	Differences []Difference
	// Answer is all that came out, a line each: what rules could have set, the decision, or the violations.
	Answer []string
	// Steps are what rules did, in order.
	Steps []engine.Step
	// Fired are the rules that changed or noted something, decided, or were violated, in order of first firing.
	Fired []string
}

// Passed reports whether the row ran and all came out as expected.
func (r RowResult) Passed() bool { return len(r.Problems) == 0 && len(r.Differences) == 0 }

// Run runs all rows that match, in order. A row that cannot be read is a failure of that row only.
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
		// Folded plans have no rule that cannot fire, so what is reached shows where CEL evaluates everything. It has to
		// come to the same answer.
		t.Coverage.Ran(plan, table.Point.Value)
		plain := t.prepare(table, row, r, plan.Interpreted(), &engine.Trace{Coverage: t.Coverage})().answer(t.Registry)
		if !slices.Equal(plain, result.Answer) {
			result.Differences = append(result.Differences, Difference{Field: "CEL's evaluator",
				Want: strings.Join(plain, ", "), Got: strings.Join(result.Answer, ", ")})
		}
	}
	return result
}

// prepare reads a row and returns what runs it; it must not be called when there were problems.
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

// planCache compiles each combination of point, pipeline, gates and params once.
type planCache struct {
	registry *registry.Registry
	compile  func(compile.Options) (*engine.Plan, error)
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
	if c.registry.PointsByName()[table.Point.Value] != nil { // else the row says so
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
		made.plan, made.err = c.compile(compile.Options{Pipeline: table.Pipeline.Value, Overlays: overlays, Gates: gates, Params: params, Points: points})
		c.plans[key.String()] = made
	}
	return made.plan, made.err
}

// Failures is nil when all rows passed; otherwise an error that lists, by place, why rows could not be read and what
// came out otherwise than expected (see Problems).
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
