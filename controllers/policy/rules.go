package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/ruletest"
	"github.com/celvpa/celvpa/rules"
)

// Rules are rule files that were read, with all that is needed to compile them.
type Rules struct {
	Library *document.Library

	registry *registry.Registry
	// Options are those that the files were opened with.
	Options Options
}

// Open reads the rule files. The error lists every fault with its position; rules that come with it are for finding more faults.
func Open(o Options) (*Rules, error) {
	layer, _, err := own(o.Path)
	if err != nil {
		return nil, err
	}
	return openOver(o, layer)
}

// openOver lays rule files that were read, nil for none, over the shipped ones.
func openOver(o Options, layer *document.Layer) (*Rules, error) {
	library, err := shippedFor(o)
	if err == nil && layer != nil {
		over := loader
		over.Base = library
		library, err = over.Load(*layer)
	}
	if library == nil {
		return nil, err
	}
	for _, name := range o.Pipelines {
		if _, err := library.Pipeline(name); err != nil {
			return nil, notShipped("--pipelines", name, err)
		}
	}
	if o.Pipeline != "" && err == nil {
		if _, err := library.Pipeline(o.Pipeline); err != nil {
			return nil, notShipped("--pipeline", o.Pipeline, err)
		}
	}
	registry, broken := Registry()
	if broken != nil {
		return nil, broken
	}
	if o.Pipeline == "" {
		o.Pipeline = rules.DefaultPipeline
	}
	return &Rules{Library: library, registry: registry, Options: o}, err
}

// notShipped is the error of a flag that names a pipeline which is not there.
func notShipped(flag, name string, err error) error {
	return fmt.Errorf("%s: %w; %sshipped: %s", flag, err, faults.Near(name, rules.PipelineNames), strings.Join(rules.PipelineNames, ", "))
}

// Compile compiles every pipeline, alone and with its overlays. The error lists every fault with
// its position.
func (r *Rules) Compile() (*compile.Rulebook, error) {
	o := r.Options
	return compile.NewRulebook(r.Library, r.registry, compile.Options{Pipeline: o.Pipeline, Gates: o.Gates, Params: o.Params, Points: o.Points, Cache: o.Cache, Labels: o.Labels})
}

// Load reads and compiles the rules.
func Load(o Options) (*compile.Rulebook, error) {
	r, err := Open(o)
	if err != nil {
		return nil, err
	}
	return r.Compile()
}

// loadTested compiles rule files that were read, and refuses rules that fail the test tables among them.
func loadTested(o Options, layer *document.Layer) (*compile.Rulebook, error) {
	r, err := openOver(o, layer)
	if err != nil {
		return nil, err
	}
	book, err := r.Compile()
	if err != nil { // what does not compile fails no table
		return nil, err
	}
	if err := r.TestOwn(); err != nil {
		return nil, err
	}
	return book, nil
}

// Over returns the rules with those at a path, a folder or one file, laid over them. The error lists
// every fault with its position.
func (r *Rules) Over(path string) (*Rules, error) {
	layer, _, err := own(path)
	if err != nil {
		return nil, err
	}
	load := loader
	load.Base = r.Library
	library, err := load.Load(*layer)
	if err != nil {
		return nil, err
	}
	out := *r
	out.Library, out.Options.Path = library, path
	return &out, nil
}

// Under is Over, but that overlays at the path that are in mode Audit or Warn count as enforced, and
// tried names them: the result is for comparisons, not for decisions.
func (r *Rules) Under(path string) (over *Rules, tried []string, err error) {
	over, err = r.Over(path)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range over.Tried() {
		if o == r.Library.Overlays[o.Name.Value] {
			continue
		}
		over = over.Enforcing(o)
		tried = append(tried, o.Name.Value+" ("+o.ModeOf()+")")
	}
	return over, tried, nil
}

// Tried lists the overlays among the rules that are in mode Audit or Warn, by name.
func (r *Rules) Tried() (out []*document.Overlay) {
	for _, name := range slices.Sorted(maps.Keys(r.Library.Overlays)) {
		if o := r.Library.Overlays[name]; o.ModeOf() != document.ModeEnforce {
			out = append(out, o)
		}
	}
	return out
}

// Enforcing returns the rules with an overlay enforced.
func (r *Rules) Enforcing(o *document.Overlay) *Rules {
	enforced := *o
	enforced.Mode.Value = document.ModeEnforce
	out := *r
	out.Library = r.Library.With(&enforced)
	return &out
}

// Pinned returns the rules with a pipeline, name or name@version, in place of the default.
func (r *Rules) Pinned(pipeline string) (*Rules, error) {
	if _, err := r.Library.Pipeline(pipeline); err != nil {
		return nil, err
	}
	out := *r
	out.Options.Pipeline = pipeline
	return &out, nil
}

// PipelineOf is the pipeline that decides by default; nil if there is none of its name, which Compile reports.
func (r *Rules) PipelineOf() *document.Pipeline {
	p, _ := r.Library.Pipeline(r.Options.Pipeline)
	return p
}

// With returns the rules with parameters set, by ruleset.param, besides those that are, and also where a pipeline sets them.
func (r *Rules) With(params map[string]string) *Rules {
	out := *r
	out.Library = r.Library.With()
	out.Library.Pipelines = maps.Clone(r.Library.Pipelines)
	for id, p := range r.Library.Pipelines {
		kept := slices.DeleteFunc(slices.Clone(p.Set), func(a document.Assignment) bool { return isSet(params, a.Path.Value) })
		if len(kept) < len(p.Set) {
			own := *p
			own.Set = kept
			out.Library.Pipelines[id] = &own
		}
	}
	out.Options.Params = maps.Clone(r.Options.Params)
	if out.Options.Params == nil {
		out.Options.Params = map[string]string{}
	}
	maps.Copy(out.Options.Params, params)
	return &out
}

// isSet reports whether one of the parameters has a key, which may lack its rule set.
func isSet(params map[string]string, key string) bool {
	for name := range params {
		if name == key || strings.HasSuffix(name, "."+key) {
			return true
		}
	}
	return false
}

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
