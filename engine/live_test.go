package engine

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// basketPoint has facts that reach what rules write to its lines.
func basketPoint() *Point {
	seesAll := Var{Name: "lines", Type: ListOf(RecordOf(lineSchema)), Live: true, Doc: "all lines"}
	return &Point{
		Name: "basket", Kind: StagePoint,
		Vars: []Var{seesAll, {Name: "total", Type: RecordOf(totalSchema), Writable: true}, {Name: "first", Type: RecordOf(lineSchema), Live: true}},
		Scopes: []Scope{{Name: "line", Vars: []Var{
			{Name: "now", Type: RecordOf(lineSchema), Writable: true},
			{Name: "index", Type: Int, Live: true},
			{Name: "others", Type: ListOf(RecordOf(lineSchema)), Live: true},
		}}},
		Link: func(f *Facts) {
			var all []*Record
			for i, item := range f.Items("line") {
				item.Set("index", Number(int64(i)))
				all = append(all, item.Record("now"))
			}
			for i, item := range f.Items("line") {
				var others []*Record
				for j, r := range all {
					if i != j {
						others = append(others, r)
					}
				}
				item.Set("others", Records(others))
			}
			f.Set("lines", Records(all))
			if len(all) > 0 {
				f.Set("first", all[0])
			}
		},
	}
}

const basketStages = `
  stages:
  - name: first
    each: line
    variables:
      sum: "sum(lines.map(l, l.price))"
      ofFirst: first.price
      ofOthers: "sum(others.map(l, l.price))"
    rules:
    - {name: before, set: {now.before: sum}}
    - {name: double, set: {now.price: now.price * 2}}
    - {name: after, set: {now.weight: "int(sum * 10000 + ofFirst * 100 + ofOthers)"}}
  - name: then
    rules:
    - {name: total, set: {total.price: "sum(lines.map(l, l.price)) + first.price"}}
`

func TestVariablesThatReadALiveFactSeeWhatRulesWroteBefore(t *testing.T) {
	r := shop()
	point := basketPoint()
	r.AddPoint(point)
	plan, err := compileAt(r, "basket", basketStages, CompileOptions{})
	require.NoError(t, err)
	for name, p := range map[string]*Plan{"code": plan, "CEL": plan.Interpreted(), "specialized": plan.Specialize()} {
		t.Run(name, func(t *testing.T) {
			facts := func() (*Facts, *Record) {
				total := totalSchema.New()
				f := point.NewFacts().Set("total", total)
				f.AddItem("line", "a").Set("now", lineSchema.New().SetInt("price", 1))
				f.AddItem("line", "b").Set("now", lineSchema.New().SetInt("price", 5))
				return f, total
			}
			for range 2 { // also in a frame that ran before
				f, total := facts()
				require.Empty(t, p.RunStages("basket", f, nil))
				var got []string
				for _, item := range f.Items("line") {
					now := item.Record("now")
					before, _ := now.Int("before")
					after, _ := now.Int("weight")
					got = append(got, fmt.Sprintf("%s: %d then %d", item.Label, before, after))
				}
				// a sees 1 + 5, then 2 + 5; b sees 2 + 5, then 2 + 10.
				require.Equal(t, []string{"a: 6 then 70205", "b: 7 then 120202"}, got)
				require.EqualValues(t, 14, price(t, total))
			}
		})
	}
}

func TestTablesHaveLiveFactsWithoutBeingGivenThem(t *testing.T) {
	r := shop()
	r.AddPoint(basketPoint())
	files := oneRuleSet(r, "basket", basketStages)
	files["t.yaml"] = &fstest.MapFile{Data: []byte(tableHead + "  point: basket\n  rows:\n" +
		"  - {name: linked, given: {line: {a: {now: {price: 1}}, b: {now: {price: 5}}}}, expect: {total: {price: 14}}}\n" +
		"  - {name: a list, given: {lines: []}, expect: {total: {}}}\n" +
		"  - {name: a place, given: {line: {a: {index: 7}}}, expect: {total: {}}}\n" +
		"  - {name: an outcome, given: {line: {a: {}}}, expect: {first: {}, line: {a: {others: []}}}}\n")}
	lib, err := Loader{}.Load(Layer{FS: files})
	require.NoError(t, err)
	plan, err := Compile(lib, r, CompileOptions{Pipeline: "p"})
	require.NoError(t, err)
	runner := &TestRunner{Registry: r, Plans: func(CompileOptions) (*Plan, error) { return plan, nil }}
	require.Equal(t, []string{
		"ok linked",
		`t.yaml:8:28: RuleTest t, row "a list": basket has no fact or scope "lines"; known: total, line`,
		`t.yaml:9:40: RuleTest t, row "a place": scope line has no fact to give called "index"; known: now`,
		`t.yaml:10:57: RuleTest t, row "an outcome": rules at basket cannot change "first"; known: total, line, notes, fired, errors`,
		`t.yaml:10:79: RuleTest t, row "an outcome": rules cannot change for an item of scope line "others"; known: now, notes`,
	}, shown(runner.Run(lib.Tests)))
}

func TestALiveFactIsNoConstant(t *testing.T) {
	r := shop()
	r.AddPoint(basketPoint())
	plan, err := compileAt(r, "basket", basketStages, CompileOptions{})
	require.NoError(t, err)
	require.PanicsWithValue(t, "engine: rules at point basket may write first, it is no constant", func() {
		plan.Specialize(Constant{Point: "basket", Name: "first", Value: lineSchema.New()})
	})
}

func TestLiveFactsAreDeclaredWhereTheyCanBe(t *testing.T) {
	declare := func(change func(*Point)) func() {
		return func() {
			p := basketPoint()
			change(p)
			shop().AddPoint(p)
		}
	}
	require.PanicsWithValue(t, "engine: point basket: live facts and Link go together", declare(func(p *Point) { p.Link = nil }))
	require.PanicsWithValue(t, "engine: point basket: live facts and Link go together", declare(func(p *Point) { p.Vars, p.Scopes = nil, nil }))
	require.Panics(t, declare(func(p *Point) { p.Vars[0].Writable = true }))
	require.Panics(t, declare(func(p *Point) { p.Kind = ValidationPoint }))
}

func TestFunctionsTakeAndGiveListsOfIntegers(t *testing.T) {
	r := shop()
	r.AddPoint(mixedPoint)
	r.AddFunction("twice", SameUnit, "each twice", Func1(func(list []int64) []int64 {
		var out []int64
		for _, n := range list {
			out = append(out, 2*n)
		}
		return out
	}))
	r.AddFunction("upTo", NoUnit, "from 0", Func1(func(n int64) []int64 {
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
`, CompileOptions{})
		require.NoError(t, err, expression)
		for name, p := range map[string]*Plan{"code": plan, "CEL": plan.Interpreted()} {
			now := outerSchema.New()
			f := mixedPoint.NewFacts().Set("x", Number(1)).Set("r", outerSchema.New().SetStrings("l", []string{"a", "bc"}))
			f.AddItem("one", "label").Set("t", Text("label")).Set("q", outerSchema.New()).Set("now", now)
			require.Empty(t, p.RunStages("mixed", f, nil), expression)
			got, _ := now.Int("i")
			require.Equal(t, want, got, "%s by %s", expression, name)
		}
	}
}
