package engine_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/ruletest"
)

// basketPoint has facts that show what rules write to its lines and to its gift.
func basketPoint() *registry.Point {
	return &registry.Point{
		Name: "basket", Kind: registry.StagePoint,
		Vars: []registry.Var{{Name: "total", Type: lang.RecordOf(totalSchema), Writable: true}},
		Scopes: []registry.Scope{
			{Name: "line", List: "lines", Whole: "ordered", Kinds: []string{"a", "b", "c"}, Doc: "all lines", Vars: []registry.Var{
				{Name: "line", Type: lang.String},
				{Name: "index", Type: lang.Int},
				{Name: "now", Type: lang.RecordOf(lineSchema), Writable: true},
			}},
			{Name: "gift", Whole: "present", Vars: []registry.Var{{Name: "value", Type: lang.RecordOf(lineSchema), Writable: true}}},
		},
	}
}

const basketStages = `
  stages:
  - name: first
    each: line
    variables:
      sum: "sum(lines.map(l, l.now.price))"
      ofFirst: ordered.a.now.price
      ofOthers: "sum(lines.filter(l, l.index != index && l.line != line).map(l, l.now.price))"
    rules:
    - {name: before, set: {now.before: sum}}
    - {name: double, set: {now.price: now.price * 2}}
    - {name: after, set: {now.weight: "int(sum * 10000 + ofFirst * 100 + ofOthers)"}}
  - name: wrap
    each: gift
    rules:
    - {name: twice, set: {value.price: value.price * 2}}
  - name: then
    rules:
    - name: total
      when: "!has(ordered.c) && has(present.value)"
      set: {total.price: "sum(lines.map(l, l.now.price)) + ordered.a.now.price + present.value.price"}
`

func TestVariablesSeeEarlierWritesToOtherItems(t *testing.T) {
	r := shop()
	point := basketPoint()
	r.AddPoint(point)
	plan, err := compileAt(r, "basket", basketStages, compile.Options{})
	require.NoError(t, err)
	for name, p := range map[string]*engine.Plan{"code": plan, "CEL": plan.Interpreted()} {
		t.Run(name, func(t *testing.T) {
			facts := func() (*registry.Facts, *lang.Record) {
				total := totalSchema.New()
				f := point.NewFacts().Set("total", total)
				f.AddItem("line", "a").Set("now", lineSchema.New().SetInt("price", 1))
				f.AddItem("line", "b").Set("now", lineSchema.New().SetInt("price", 5))
				f.AddItem("gift", "ribbon").Set("value", lineSchema.New().SetInt("price", 50))
				return f, total
			}
			for range 2 { // the second run reuses a frame
				f, total := facts()
				require.Empty(t, p.RunStages("basket", f, nil))
				var got []string
				for _, item := range f.Items("line") {
					now := item.Record("now")
					before, _ := now.Int("before")
					after, _ := now.Int("weight")
					got = append(got, fmt.Sprintf("%s: %d then %d", item.Label, before, after))
				}
				// a reads 1 + 5, then 2 + 5; b reads 2 + 5, then 2 + 10.
				require.Equal(t, []string{"a: 6 then 70205", "b: 7 then 120202"}, got)
				require.EqualValues(t, 114, price(t, total))
			}
		})
	}
}

// Hosts bind the empty record to what rules may write, for many items and runs at once.
func TestRulesDoNotWriteToTheEmptyRecord(t *testing.T) {
	r := shop()
	point := basketPoint()
	r.AddPoint(point)
	plan, err := compileAt(r, "basket", `
  stages:
  - name: lines
    each: line
    rules:
    - {name: price, when: line == "a", set: {now.price: "7", now.weight: "8"}}
    - {name: unset, when: line == "c", unset: now.price}
  - name: sum
    rules:
    - {name: all, set: {total.price: "sum(lines.map(l, l.now.?price.orValue(1)))"}}
`, compile.Options{})
	require.NoError(t, err)
	for name, p := range map[string]*engine.Plan{"code": plan, "CEL": plan.Interpreted()} {
		t.Run(name, func(t *testing.T) {
			f := point.NewFacts().Set("total", totalSchema.Empty())
			for _, line := range []string{"a", "b", "c"} {
				f.AddItem("line", line).Set("now", lineSchema.Empty())
			}
			require.Empty(t, p.RunStages("basket", f, nil))
			require.EqualValues(t, 9, price(t, f.Value(0).(*lang.Record)))
			require.EqualValues(t, 7, price(t, line(f, 0)))
			require.Same(t, lineSchema.Empty(), line(f, 1))
			require.True(t, line(f, 2).Same(lineSchema.New()))
			require.True(t, lineSchema.Empty().Same(lineSchema.New()))
			require.True(t, totalSchema.Empty().Same(totalSchema.New()))
		})
	}
}

func TestTablesDeriveFactsThatShowItems(t *testing.T) {
	r := shop()
	r.AddPoint(basketPoint())
	files := oneRuleSet(r, "basket", basketStages)
	files["t.yaml"] = &fstest.MapFile{Data: []byte(tableHead + "  point: basket\n  rows:\n" +
		"  - {name: all, given: {line: {a: {now: {price: 1}}, b: {now: {price: 5}}}, gift: {x: {value: {price: 1}}}}, expect: {total: {price: 16}}}\n" +
		"  - {name: no gift, given: {line: {a: {now: {price: 1}}}}, expect: {total: {}}}\n" +
		"  - {name: a list, given: {lines: []}, expect: {total: {}}}\n" +
		"  - {name: a place, given: {line: {a: {index: 7}}}, expect: {total: {}}}\n" +
		"  - {name: two gifts, given: {gift: {x: {}, y: {}}}, expect: {total: {}}}\n" +
		"  - {name: an outcome, given: {line: {a: {}}}, expect: {present: {}, line: {a: {index: 1}}}}\n")}
	lib, err := document.Loader{}.Load(document.Layer{FS: files})
	require.NoError(t, err)
	plan, err := compile.Compile(lib, r, compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	runner := &ruletest.Runner{Registry: r, Plans: func(compile.Options, []string) (*engine.Plan, error) { return plan, nil }}
	require.Equal(t, []string{
		"ok all",
		"ok no gift",
		`t.yaml:9:28: RuleTest t, row "a list": basket has no fact or scope "lines"; known: total, gift, line`,
		`t.yaml:10:40: RuleTest t, row "a place": scope line has no fact to give called "index"; known: now`,
		`t.yaml:11:45: RuleTest t, row "two gifts": scope gift has one item at most`,
		`t.yaml:12:57: RuleTest t, row "an outcome": rules at basket cannot change "present"; known: total, gift, line, notes, fired, errors`,
		`t.yaml:12:81: RuleTest t, row "an outcome": rules cannot change for an item of scope line "index"; known: now, notes`,
	}, shown(runner.Run(lib.Tests)))
}

func TestUnsetListsUnboundVariables(t *testing.T) {
	point := basketPoint()
	shop().AddPoint(point)
	f := point.NewFacts()
	f.AddItem("line", "a")
	f.AddItem("gift", "x").Set("value", lineSchema.New())
	require.Equal(t, []string{"total", "line.now"}, f.Unset())
	f.Set("total", totalSchema.New()).Items("line")[0].Set("now", lineSchema.New())
	require.Empty(t, f.Unset())
}

func TestHostsCannotSetFactsThatShowItems(t *testing.T) {
	point := basketPoint()
	shop().AddPoint(point)
	require.PanicsWithValue(t, "engine: point basket has no variable lines to set", func() { point.NewFacts().Set("lines", lang.Records(nil)) })
	require.PanicsWithValue(t, "engine: scope line has no variable index to set", func() { point.NewFacts().AddItem("line", "a").Set("index", lang.Number(1)) })
	require.PanicsWithValue(t, "engine: point basket: scope gift has one item at most", func() {
		f := point.NewFacts()
		f.AddItem("gift", "x")
		f.AddItem("gift", "y")
	})
}

func TestInvalidScopesPanic(t *testing.T) {
	for want, change := range map[string]func(*registry.Point){
		"only stages see what scope line holds":                           func(p *registry.Point) { p.Kind = registry.DecisionPoint },
		"scope line has kinds, so it needs a text line, which holds them": func(p *registry.Point) { p.Scopes[0].Vars = p.Scopes[0].Vars[1:] },
		"two variables are called total":                                  func(p *registry.Point) { p.Scopes[0].List = "total" },
		"scope line hides variable index":                                 func(p *registry.Point) { p.Scopes[1].Whole = "index" },
	} {
		p := basketPoint()
		change(p)
		require.PanicsWithValue(t, "engine: point basket: "+want, func() { shop().AddPoint(p) })
	}
}

func TestFunctionsTakeAndReturnIntegerLists(t *testing.T) {
	r := shop()
	r.AddPoint(mixedPoint)
	r.AddFunction("twice", registry.SameUnit, "each twice", registry.Func1(func(list []int64) []int64 {
		var out []int64
		for _, n := range list {
			out = append(out, 2*n)
		}
		return out
	}))
	r.AddFunction("upTo", registry.NoUnit, "from 0", registry.Func1(func(n int64) []int64 {
		var out []int64
		for i := range n {
			out = append(out, i)
		}
		return out
	}))
	for expression, want := range map[string]int64{
		"twice([x, 3])[1]":                  6,
		"sum(twice(r.l.map(e, size(e))))":   6,
		"sum(upTo(x + 3))":                  6,
		"sum(twice(upTo(4)))":               12,
		"size(twice([x].filter(e, e > 9)))": 0,
		"twice(upTo(3))[v]":                 2,
	} {
		plan, err := compileAt(r, "mixed", `
  stages: [{name: st, each: one, variables: {v: x}, rules: [{name: r, set: {now.i: "`+expression+`"}}, {name: unused, when: v > 9, note: n}]}]
`, compile.Options{})
		require.NoError(t, err, expression)
		for name, p := range map[string]*engine.Plan{"code": plan, "CEL": plan.Interpreted()} {
			now := outerSchema.New()
			f := mixedPoint.NewFacts().Set("x", lang.Number(1)).Set("r", outerSchema.New().Put("l", lang.ListFrom([]string{"a", "bc"})))
			f.AddItem("one", "label").Set("t", lang.Text("label")).Set("q", outerSchema.New()).Set("now", now)
			require.Empty(t, p.RunStages("mixed", f, nil), expression)
			got, _ := now.Int("i")
			require.Equal(t, want, got, "%s by %s", expression, name)
		}
	}
}
