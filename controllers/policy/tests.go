package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/ruletest"
)

// TestOptions select and configure test tables.
type TestOptions struct {
	Match    func(table, row string) bool // selects rows; nil = all
	Coverage *engine.Coverage             // of the rows; nil = not collected
	Overlays []string                     // applied, beside those that a table names, to rows on pipelines that they are meant for
}

// Test runs test tables on the rules. The gates and params of a row are laid over those of the
// options.
func (r *Rules) Test(tables []*document.RuleTest, t TestOptions) []ruletest.RowResult {
	cache := cmp.Or(r.Options.Cache, &compile.Cache{}) // rows differ in few gates and parameters
	runner := &ruletest.Runner{Registry: r.registry, Match: t.Match, Coverage: t.Coverage, Plans: func(o compile.Options, overlays []string) (*engine.Plan, error) {
		if o.Pipeline == "" {
			o.Pipeline = r.Options.Pipeline
		}
		for _, name := range t.Overlays {
			if r.Library.Fits(name, o.Pipeline) && !slices.Contains(overlays, name) {
				overlays = append(slices.Clone(overlays), name)
			}
		}
		o.Gates, o.Params = over(r.Options.Gates, o.Gates), over(r.Options.Params, o.Params)
		if len(o.Points) == 0 {
			o.Points = r.Options.Points
		}
		o.Cache = cache
		return compile.Compile(r.Library, r.registry, o, overlays...)
	}}
	return runner.Run(tables)
}

// over lays one set of settings over another and leaves both as they are.
func over[V any](under, above map[string]V) map[string]V {
	out := map[string]V{}
	maps.Copy(out, under)
	maps.Copy(out, above)
	return out
}

// runs reports whether the rules at a point are compiled. Unknown points are reported elsewhere.
func (r *Rules) runs(point string) bool {
	if len(r.Options.Points) == 0 || slices.Contains(r.Options.Points, point) {
		return true
	}
	return !slices.ContainsFunc(r.registry.Points(), func(p *registry.Point) bool { return p.Name == point })
}

// TestOwn runs the test tables among the rules, which must compile. A table that fails is an error
// like one of compilation: it names the table, the row and the outcome.
//
// The tables are about the rules as written, so they run without the gates and params of the
// process: an operator's flag must not make a table fail.
func (r *Rules) TestOwn() error {
	var tables []*document.RuleTest
	for _, table := range r.Library.Tests {
		if r.runs(table.Point.Value) {
			tables = append(tables, table)
		}
	}
	written := *r
	written.Options.Gates, written.Options.Params = nil, nil
	if err := ruletest.Failures(written.Test(tables, TestOptions{})); err != nil {
		return fmt.Errorf("the test tables among the rules fail:\n%w", err)
	}
	return nil
}
