package engine_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/cel-go/common/types"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// bidPoint has bounds of the price of each lot, and of all together, which its solver only counts.
func bidPoint(heard *[]registry.Bound) *registry.Point {
	return &registry.Point{
		Name: "lot.bid", Kind: registry.StagePoint,
		Scopes: []registry.Scope{{
			Name:   "lot",
			Vars:   []registry.Var{{Name: "lot", Type: lang.String}, {Name: "bid", Type: lang.RecordOf(lineSchema), Writable: true}},
			Bounds: []registry.BoundVar{{Name: "most", Type: lang.RecordOf(lineSchema), Of: "bid", Scope: "lot"}},
		}},
		Bounds: []registry.BoundVar{{Name: "mostTogether", Type: lang.RecordOf(lineSchema), Of: "bid", Scope: "lot"}},
		Solvers: []registry.Solver{{Name: "lots", Doc: "the last most of each", Solve: func(f *registry.Facts, set []registry.Bound) (out []registry.Chosen) {
			*heard = slices.Clone(set)
			for i, item := range f.Items("lot") {
				for b := range set {
					if set[b].Item == item {
						out = append(out, registry.Chosen{Item: item, Index: i, Var: "bid", Path: []int{set[b].Field}, Value: lang.CellOf(types.Int(set[b].Value)), By: &set[b]})
					}
				}
			}
			return out
		}}},
	}
}

func TestSolversChooseWithinTheBoundsOfEarlierStages(t *testing.T) {
	var heard []registry.Bound
	point, r := bidPoint(&heard), shop()
	r.AddPoint(point)
	const body = `
  stages:
  - name: caps
    each: lot
    rules:
    - {name: purse, set: {most.price: bid.price - 10}, note: the purse is small}
    - {name: rare, when: lot == 'vase', unset: most.price}
  - {name: all, rules: [{name: sum, set: {mostTogether.price: cents('90c')}}]}
  - {name: choose, solve: lots}
  - {name: after, each: lot, rules: [{name: seen, when: bid.price == 40, set: {bid.weight: "1"}}]}
`
	plan, err := compileAt(r, "lot.bid", body, compile.Options{})
	require.NoError(t, err)
	for name, plan := range map[string]*engine.Plan{"folded": plan, "interpreted": plan.Interpreted()} {
		t.Run(name, func(t *testing.T) {
			facts := point.NewFacts()
			for _, lot := range []string{"vase", "chair"} {
				facts.AddItem("lot", lot).Set("bid", lineSchema.New().SetInt("price", 50))
			}
			trace := &engine.Trace{}
			require.Empty(t, plan.RunStages("lot.bid", facts, trace))
			vase, chair := facts.Items("lot")[0], facts.Items("lot")[1]
			require.Equal(t, int64(50), price(t, vase.Record("bid")), "its bound was taken back")
			require.Equal(t, int64(40), price(t, chair.Record("bid")))
			require.Equal(t, []string{"the purse is small"}, chair.Notes)
			require.Empty(t, vase.Notes, "a bound is noted where it makes a difference")
			weight, _ := chair.Record("bid").Int("weight")
			require.Equal(t, int64(1), weight, "later stages see what was chosen")
			require.Len(t, heard, 2)
			require.Less(t, heard[0].Level, heard[1].Level, "later stages have a higher level")
			require.Nil(t, heard[1].Item)
			steps := trace.Steps()
			require.Len(t, steps, 2)
			require.Equal(t, []string{"s/caps/purse", "bid.price", "50c", "40c", "the purse is small"},
				[]string{steps[0].Path(), steps[0].Field, steps[0].From, steps[0].To, steps[0].Reason})
		})
	}
}

func TestFaultsOfStagesThatSolve(t *testing.T) {
	for name, tt := range map[string]struct{ point, body, want string }{
		"an unknown solver":          {"lot.bid", "{name: a, solve: lot}", `point lot.bid has no solver "lot"; use lots`},
		"a point without solvers":    {"order.adjust", "{name: a, solve: lots}", "point order.adjust has no solvers: write rules"},
		"rules beside it":            {"lot.bid", "{name: a, solve: lots, rules: [{name: r, note: x}]}", "stage a solves: it takes when, and neither each, variables, onError nor rules"},
		"a bound is not a fact":      {"lot.bid", "{name: a, each: lot, rules: [{name: r, when: most.price > 1, note: x}]}", "undeclared reference to 'most'"},
		"a bound of another unit":    {"lot.bid", "{name: a, each: lot, rules: [{name: r, set: {most.price: bid.weight}}]}", "grams"},
		"a field that a bound lacks": {"lot.bid", "{name: a, each: lot, rules: [{name: r, set: {most.cost: '1'}}]}", `Line has no field "cost"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := shop()
			r.AddPoint(bidPoint(new([]registry.Bound)))
			_, err := compileAt(r, tt.point, "\n  stages:\n  - "+tt.body+"\n", compile.Options{})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestOverlaysThatChangeWhatWasChosenAreFound(t *testing.T) {
	r := shop()
	r.AddPoint(bidPoint(new([]registry.Bound)))
	files := oneRuleSet(r, "lot.bid", "\n  stages:\n  - {name: choose, solve: lots}\n  - {name: after, each: lot, rules: [{name: own, set: {bid.weight: '1'}}]}\n")
	for name, tt := range map[string]struct{ change, found string }{
		"before":         {"{before: s/choose, stage: {name: n, each: lot, rules: [{name: r, set: {bid.price: cents('1c')}}]}}", ""},
		"after":          {"{after: s/choose, stage: {name: n, each: lot, rules: [{name: r, set: {bid.price: cents('1c')}}]}}", "put the stage before s/choose, or set a bound there"},
		"another rule":   {"{after: s/after/own, rule: {name: r, set: {bid.price: cents('1c')}}}", "bid.price is set after it was chosen within bounds"},
		"a bound":        {"{before: s/choose, stage: {name: n, each: lot, rules: [{name: r, set: {most.price: cents('1c')}}]}}", ""},
		"a bound after":  {"{after: s, stage: {name: n, each: lot, rules: [{name: r, set: {most.price: cents('1c')}}]}}", "most.price has no effect: no later stage solves; put the stage before s/choose"},
		"a rule set":     {"{before: s, ruleSet: late@1.0.0}", ""},
		"one after":      {"{after: s, ruleSet: late@1.0.0}", "late.yaml:8:57: RuleSet late@1.0.0, stage n, rule r: bid.price is set after it was chosen within bounds"},
		"a bound of all": {"{after: s, stage: {name: n, rules: [{name: r, set: {mostTogether.price: cents('1c')}}]}}", "mostTogether.price has no effect"},
	} {
		t.Run(name, func(t *testing.T) {
			with := maps.Clone(files)
			with["late.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: late}\nspec:\n  version: 1.0.0\n  description: x\n  point: lot.bid\n" +
				"  stages: [{name: n, each: lot, rules: [{name: r, set: {bid.price: cents('1c')}}]}]\n")}
			with["o.yaml"] = &fstest.MapFile{Data: []byte("{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: o}, spec: {change: [" + tt.change + "]}}")}
			lib, err := document.Loader{}.Load(document.Layer{FS: with})
			require.NoError(t, err)
			plan, err := compile.Compile(lib, r, compile.Options{Pipeline: "p"}, "o")
			require.NoError(t, err)
			require.Equal(t, []string{"o"}, plan.OverlaysAt("lot.bid"))
			require.Empty(t, plan.OverlaysAt("order.adjust"))
			book, err := compile.NewRulebook(lib, r, compile.Options{Pipeline: "p"})
			require.NoError(t, err)
			for _, findings := range [][]*source.Problem{plan.Findings(), book.Findings()} {
				findings = slices.DeleteFunc(slices.Clone(findings), func(p *source.Problem) bool { return strings.Contains(p.Message, "nothing runs it") })
				if tt.found == "" {
					require.Empty(t, findings)
					continue
				}
				require.Len(t, findings, 1)
				require.ErrorContains(t, findings[0], tt.found)
			}
		})
	}
}
