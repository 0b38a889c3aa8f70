package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/ruletest"
	"github.com/celvpa/celvpa/engine/source"
)

// tableRules has rule sets for every point of the shop, and pipeline p.
const tableRules = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: price}
spec:
  version: 1.0.0
  point: order.adjust
  params: [{name: most, type: cents, default: "100"}]
  stages:
  - name: cap
    each: line
    when: customer.tier == 'gold'
    rules:
    - {name: most, when: now.price > params.most, set: {now.price: params.most}, note: capped}
    - {name: double, set: {now.before: now.price * 2}}
  - name: total
    rules:
    - {name: sum, set: {total.price: count * 10}, note: summed}
    - {name: voucher, when: gates.Vouchers, set: {total.price: "voucher(customer.vouchers, 'xmas')"}}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: ship}
spec:
  version: 1.0.0
  point: order.ship
  decisions:
  - {name: tin, when: customer.tier == 'tin', do: Hold}
  - {name: light, when: "lines.all(l, l.weight < 10)", do: Ship, reason: It is light}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: valid}
spec:
  version: 1.0.0
  point: order.validate
  validations:
  - {name: priced, at: "lines[*]", enforce: [Admission], when: "!has(self.gift)", expression: self.price > 0, message: a line needs a price, fieldPath: .price}
  - {name: small, enforce: [Admission], expression: size(self.lines) < 3, message: split it, severity: Warn}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: p}
spec:
  version: 1.0.0
  points: {order.adjust: [price@1.0.0], order.ship: [ship@1.0.0], order.validate: [valid@1.0.0]}
`

const tableHead = "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleTest\nmetadata: {name: t}\nspec:\n"

// runTable runs a table on the shop's rules; line 5 of t.yaml is the first line of the body.
func runTable(t testing.TB, body string, coverage *engine.Coverage) []ruletest.RowResult {
	t.Helper()
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"rules.yaml": {Data: []byte(tableRules)}, "t.yaml": {Data: []byte(tableHead + body)}}})
	require.NoError(t, err)
	return shopRunner(lib, coverage).Run(lib.Tests)
}

func shopRunner(lib *document.Library, coverage *engine.Coverage) *ruletest.Runner {
	reg := shop()
	return &ruletest.Runner{Registry: reg, Coverage: coverage, Plans: func(o compile.Options, overlays []string) (*engine.Plan, error) {
		if o.Pipeline == "" {
			o.Pipeline = "p"
		}
		return compile.Compile(lib, reg, o, overlays...)
	}}
}

func shown(results []ruletest.RowResult) []string {
	var out []string
	for _, r := range results {
		if r.Passed() {
			out = append(out, "ok "+r.Row)
		}
		for _, p := range r.Problems {
			out = append(out, strings.SplitN(p.Error(), "\n", 2)[0])
		}
		for _, d := range r.Differences {
			out = append(out, fmt.Sprintf("%s: %s want %s got %s", r.Row, d.Field, d.Want, d.Got))
		}
	}
	return out
}

func TestStageRowsCompareResults(t *testing.T) {
	results := runTable(t, `
  point: order.adjust
  given:
    customer: {tier: gold, tags: [new], discount: {price: 1c}, vouchers: {xmas: 7c}}
    count: 3
    line: {a: {now: {price: 50c}}, b: {now: {price: 200c}}}
  rows:
  - name: all of it
    expect:
      total: {price: 30c}
      notes: [summed]
      line: {a: {now: {price: 50c, before: 100c}, notes: []}, b: {now: {price: 100c, before: 200c}, notes: [capped]}}
      fired: [price/cap/double, price/cap/most, price/total/sum]
  - name: none of it
    expect:
      total: {}
      notes: []
      line: {a: {notes: [capped]}, b: {now: {weight: 1g, price: 100c}}}
      fired: []
  - {name: a param, params: {price.most: 20c}, expect: {line: {a: {now: {price: 20c, before: 40c}}}}}
  - {name: a gate, gates: {Vouchers: true}, expect: {total: {price: 7c}}}
  - {name: a row's own facts, given: {customer: {tier: tin}, line: {b: {now: {price: null, weight: 4}}}}, expect: {line: {b: {now: {weight: 4}}}}}
  - {name: what may fail is listed, given: {customer: null}, expect: {errors: [price/cap/when], fired: [price/total/sum]}}
  - {name: nothing may fail, given: {customer: {tier: null}}, expect: {total: {price: 30}}}
  - {name: nothing failed, expect: {errors: [price/cap/most]}}
`, nil)
	require.Equal(t, []string{
		"ok all of it",
		"none of it: total.price want unset got 30c",
		"none of it: notes want none got summed",
		"none of it: line.a.notes want capped got none",
		"none of it: line.b.now.before want unset got 200c",
		"none of it: line.b.now.weight want 1g got unset",
		"none of it: fired want none got price/cap/double, price/cap/most, price/total/sum",
		"ok a param",
		"ok a gate",
		"ok a row's own facts",
		"ok what may fail is listed",
		"nothing may fail: errors want none got rule price/cap/when (rules.yaml:12:11) failed for a: when: tier is not set; guard it with has(), or give a default: .?tier.orValue(…)",
		"nothing failed: errors want price/cap/most got none",
	}, shown(results))
	require.Equal(t, source.Position{File: "t.yaml", Line: 12, Col: 5}, results[0].At)
	require.Equal(t, []string{"price/total/sum"}, results[5].Fired)
}

func TestRowsOfDecisionsAndValidations(t *testing.T) {
	results := runTable(t, `
  point: order.ship
  given: {customer: {tier: gold}}
  rows:
  - {name: light, given: {lines: [{weight: 1g}, {weight: 9}]}, expect: {do: Ship, rule: ship/light, reason: It is light}}
  - {name: heavy, given: {lines: [{weight: 10}]}, expect: {do: Hold, rule: default}}
  - {name: no lines given, expect: {do: Hold, errors: [ship/light]}}
  - {name: otherwise, given: {lines: []}, expect: {do: Hold, rule: ship/tin, reason: no}}
---
`+strings.Replace(tableHead, "name: t", "name: u", 1)+`
  point: order.validate
  rows:
  - {name: fine, given: {object: {lines: [{price: 1.5}, {gift: true}]}}, expect: {}}
  - name: each listed key is compared
    given: {object: {lines: [{price: 0}, {price: 0}, {price: 1}]}}
    expect: {violations: [{rule: valid/priced, field: "lines[0].price", reason: FieldValueInvalid, severity: Deny}, {field: "lines[1].price"}, {message: split it, severity: Warn}]}
  - name: too few and too many
    given: {object: {lines: [{price: 0}]}}
    expect: {violations: []}
  - name: others
    given: {object: {lines: [{price: 0}]}}
    expect: {violations: [{rule: valid/small, severity: Warn}, {field: x}]}
`, nil)
	require.Equal(t, []string{
		"ok light", "ok heavy", "ok no lines given",
		"otherwise: do want Hold got Ship",
		"otherwise: rule want ship/tin got ship/light",
		"otherwise: reason want no got It is light",
		"ok fine", "ok each listed key is compared",
		"too few and too many: violations[0] want none got valid/priced at lines[0].price: a line needs a price",
		"others: violations[0].rule want valid/small got valid/priced",
		"others: violations[0].severity want Warn got Deny",
		"others: violations[1] want field: x got none",
	}, shown(results))
	require.Equal(t, []string{"valid/priced", "valid/small"}, results[5].Fired)
}

func TestInvalidRowFailsAloneInPlace(t *testing.T) {
	results := runTable(t, `
  point: order.adjust
  given: {customer: {tier: gold}, count: 1}
  rows:
  - {name: fine, expect: {total: {price: 10}}}
  - {name: unknown, given: {costumer: {}, customer: {teir: x}, lime: {}, line: {a: {item: {}, then: 1}}}, expect: {totals: {}, customer: {}, line: {b: {}}}}
  - {name: wrong kinds, given: {customer: gold, count: many, total: {free: perhaps}, line: [a]}, expect: {total: 5, line: {}, fired: x}}
  - {name: wrong inside, given: {customer: {tags: x, discount: {price: ten}, vouchers: {xmas: ten}}, line: {a: now}}, expect: {line: {a: {}}}}
  - {name: no list entry, given: {customer: {tags: [null, {a: b}]}}, expect: {fired: []}}
  - {name: a label, given: {line: {a: {now: {}}}}, expect: {line: {a: {item: a}, b: {now: {}}}}}
  - {name: nothing, expect: {}}
  - {name: a param, params: {price.least: 1}, expect: {fired: []}}
`, nil)
	prefix := func(line, col int, row string) string {
		return fmt.Sprintf(`t.yaml:%d:%d: RuleTest t, row %q: `, line, col, row)
	}
	require.Equal(t, []string{
		"ok fine",
		prefix(10, 29, "unknown") + `order.adjust has no fact or scope "costumer"; known: customer, total, count, line`,
		prefix(10, 54, "unknown") + `Customer has no field "teir"; known: tier, discount, tags, notes, vouchers`,
		prefix(10, 64, "unknown") + `order.adjust has no fact or scope "lime"; known: customer, total, count, line`,
		prefix(10, 91, "unknown") + `expected a single value`,
		prefix(10, 95, "unknown") + `scope line has no fact to give called "then"; known: item, now`,
		prefix(10, 116, "unknown") + `rules at order.adjust cannot change "totals"; known: total, line, notes, fired, errors`,
		prefix(10, 128, "unknown") + `rules at order.adjust cannot change "customer"; known: total, line, notes, fired, errors`,
		prefix(10, 149, "unknown") + `scope line is given no item "b"`,
		prefix(11, 43, "wrong kinds") + `expected a mapping with fields tier, discount, tags, notes, vouchers`,
		prefix(11, 56, "wrong kinds") + `"many" is not a whole number`,
		prefix(11, 76, "wrong kinds") + `"perhaps" is neither true nor false`,
		prefix(11, 92, "wrong kinds") + `expected the items of scope line: a mapping from label to facts`,
		prefix(11, 114, "wrong kinds") + `expected a mapping with fields price, free`,
		prefix(11, 123, "wrong kinds") + `expected items of scope line by label`,
		prefix(11, 134, "wrong kinds") + `expected a list`,
		prefix(12, 51, "wrong inside") + `expected a list of string`,
		prefix(12, 72, "wrong inside") + `"ten" is not an amount`,
		prefix(12, 88, "wrong inside") + `voucher xmas: "ten" is not an amount`,
		prefix(12, 112, "wrong inside") + `expected the facts of line a`,
		prefix(12, 138, "wrong inside") + `expected what comes out for line a`,
		prefix(13, 53, "no list entry") + `an entry of a list cannot be unset`,
		prefix(13, 59, "no list entry") + `expected a single value`,
		prefix(14, 72, "a label") + `rules cannot change for an item of scope line "item"; known: now, notes`,
		prefix(14, 82, "a label") + `scope line is given no item "b"`,
		prefix(15, 5, "nothing") + `the row expects nothing; name at least one outcome in expect`,
		prefix(16, 5, "a param") + `the rules do not compile as it asks for them: no parameter "price.least" in pipeline p@1.0.0: write it as <rule set>.<param>, or as <param> when it is shared`,
	}, shown(results))
}

func TestDecisionAndValidationTableFaultsAreReported(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"no such point", "  point: order.sail\n  rows: [{name: a, expect: {}}]\n", `t.yaml:5:10: RuleTest t, row "a": no point "order.sail"; known: order.adjust, order.ship, order.validate`},
		{"no such pipeline", "  point: order.ship\n  pipeline: q\n  rows: [{name: a, expect: {do: Ship}}]\n", `no pipeline "q"; loaded: p@1.0.0`},
		{"no such gate", "  point: order.ship\n  gates: {Coupons: true}\n  rows: [{name: a, expect: {do: Ship}}]\n", `no feature gate "Coupons"`},
		{"no such outcome", "  point: order.ship\n  rows: [{name: a, expect: {do: Sink}}]\n", `t.yaml:6:33: RuleTest t, row "a": do "Sink" is not an outcome of order.ship; use Ship, Hold, Ask`},
		{"not of a decision", "  point: order.ship\n  rows: [{name: a, expect: {fired: []}}]\n", `order.ship has no outcome "fired"; known: do, rule, reason, until, errors`},
		{"not of a validation", "  point: order.validate\n  rows: [{name: a, given: {object: {}}, expect: {do: Ship}}]\n", `order.validate has no outcome "do"; known: violations`},
		{"no object", "  point: order.validate\n  rows: [{name: a, expect: {}}]\n", `t.yaml:6:10: RuleTest t, row "a": given.object is required`},
		{"no such object", "  point: order.validate\n  rows: [{name: a, given: {objekt: {}}, expect: {}}]\n", `order.validate is given no "objekt"; known: object, oldObject`},
		{"not an object", "  point: order.validate\n  rows: [{name: a, given: {object: [1]}, expect: {}}]\n", `expected an object: a mapping`},
		{"infinite", "  point: order.validate\n  rows: [{name: a, given: {object: {n: .inf}}, expect: {}}]\n", `finite numbers only`},
		{"violations", "  point: order.validate\n  rows: [{name: a, given: {object: {}}, expect: {violations: {}}}]\n", `expected a list of violations`},
		{"a violation", "  point: order.validate\n  rows: [{name: a, given: {object: {}}, expect: {violations: [{}]}}]\n", `expected a violation with some of field, message`},
		{"a violation's key", "  point: order.validate\n  rows: [{name: a, given: {object: {}}, expect: {violations: [{path: x}]}}]\n", `a violation has no "path"; known: field,`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			results := runTable(t, tt.body, nil)
			require.Len(t, results, 1)
			require.NotEmpty(t, results[0].Problems)
			require.Contains(t, results[0].Problems[0].Error(), tt.want)
			require.False(t, results[0].Passed())
		})
	}
}

func TestTablesAreDecodedStrictly(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"unknown key", "  point: p\n  row: []\n", `f.yaml:6:3: RuleTest t: unknown key "row"; known here: description, gates, given`},
		{"unknown key in a row", "  point: p\n  rows: [{name: a, expects: {}}]\n", `f.yaml:6:20: RuleTest t: unknown key "expects"; known here: expect, gates, given, name, params`},
		{"no point", "  rows: [{name: a, expect: {}}]\n", "spec.point is required"},
		{"no rows", "  point: p\n", "a RuleTest needs at least one row"},
		{"rows that are no list", "  point: p\n  rows: {a: b}\n", "expected a list"},
		{"a row without a name", "  point: p\n  rows: [{expect: {}}]\n", "f.yaml:6:10: RuleTest t: a row has no name"},
		{"a row twice", "  point: p\n  rows: [{name: a, expect: {}}, {name: a, expect: {}}]\n", `f.yaml:6:40: RuleTest t: row "a" stands twice`},
		{"a row without expect", "  point: p\n  rows: [{name: a}]\n", `row "a" has no expect`},
		{"a key twice, deep inside", "  point: p\n  given: {a: [{b: 1, b: 2}]}\n  rows: [{name: a, expect: {}}]\n", `f.yaml:6:22: RuleTest t: key "b" stands twice`},
		{"an alias", "  point: p\n  given: {a: &x 1, b: *x}\n  rows: [{name: a, expect: {}}]\n", "aliases are not followed here"},
		{"a gate", "  point: p\n  gates: {A: maybe}\n  rows: [{name: a, expect: {}}]\n", `f.yaml:6:14: RuleTest t: gate A is "maybe"; use true or false`},
		{"params", "  point: p\n  params: [a]\n  rows: [{name: a, expect: {}}]\n", "expected a mapping from name to value"},
		{"given", "  point: p\n  given: [a]\n  rows: [{name: a, expect: {}}]\n", "expected a mapping"},
		{"a table twice", "  point: p\n  rows: [{name: a, expect: {}}]\n---\n" + tableHead + "  point: p\n  rows: [{name: a, expect: {}}]\n", "f.yaml:10:18: RuleTest t: defined already at f.yaml:3:18"},
		{"rules among tables", "  point: p\n  rows: [{name: a, expect: {}}]\n---" + onePipeline, "f.yaml:10:18: Pipeline p: only documents of kind RuleTest are read here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := fstest.MapFS{"f.yaml": {Data: []byte(tableHead + tt.body)}}
			_, err := document.LoadTests(document.Layer{FS: files})
			require.ErrorContains(t, err, tt.want)
			_, err = document.LoadTests(document.Layer{Files: []document.File{{Name: "f.yaml", Data: files["f.yaml"].Data}}})
			require.ErrorContains(t, err, tt.want, "files that were read already")
		})
	}
	_, err := document.LoadTests(document.Layer{Dir: "d", Files: []document.File{{Name: "none.yaml", Fault: "it is gone"}}})
	require.ErrorContains(t, err, "d/none.yaml:1:1: it is gone")
}

func TestRowsAreSelectedAndPlansCompiledOncePerCombination(t *testing.T) {
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"rules.yaml": {Data: []byte(tableRules)}, "t.yaml": {Data: []byte(tableHead + `
  point: order.ship
  given: {lines: []}
  rows:
  - {name: a, expect: {errors: [ship/tin]}}
  - {name: b, gates: {Vouchers: false}, expect: {errors: [ship/tin]}}
  - {name: c, gates: {Vouchers: false}, expect: {errors: [ship/tin]}}
`)}}})
	require.NoError(t, err)
	runner := shopRunner(lib, nil)
	compiled, plans := 0, runner.Plans
	runner.Plans = func(o compile.Options, overlays []string) (*engine.Plan, error) {
		compiled++
		return plans(o, overlays)
	}
	require.Equal(t, []string{"ok a", "ok b", "ok c"}, shown(runner.Run(lib.Tests)))
	require.Equal(t, 2, compiled)
	runner.Match = func(table, row string) bool { return table+"/"+row == "t/b" }
	require.Equal(t, []string{"ok b"}, shown(runner.Run(lib.Tests)))
}

func TestScopeVariableIsTheLabel(t *testing.T) {
	point := &registry.Point{Name: "box.pack", Kind: registry.StagePoint, Scopes: []registry.Scope{{Name: "box", Vars: []registry.Var{
		{Name: "box", Type: lang.String}, {Name: "now", Type: lang.RecordOf(lineSchema), Writable: true}}}}}
	reg := shop()
	reg.AddPoint(point)
	item := point.NewFacts().AddItem("box", "large")
	require.Equal(t, lang.Text("large"), item.Value(0))

	files := fstest.MapFS{
		"s.yaml": {Data: []byte(ruleSet("box.pack", "  stages: [{name: a, each: box, when: box == 'large', rules: [{name: r, set: {now.price: '1'}}]}]\n"))},
		"p.yaml": {Data: []byte(strings.Replace(onePipeline, "points: {", "points: {box.pack: [s@1.0.0], ", 1))},
		"t.yaml": {Data: []byte(tableHead + "  point: box.pack\n  rows:\n" +
			"  - {name: a, given: {box: {small: {}, large: {}}}, expect: {box: {small: {now: {}}, large: {now: {price: 1}}}}}\n" +
			"  - {name: b, given: {box: {small: {box: large}}}, expect: {fired: []}}\n")},
	}
	lib, err := document.Loader{}.Load(document.Layer{FS: files})
	require.NoError(t, err)
	plan, err := compile.Compile(lib, reg, compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	runner := &ruletest.Runner{Registry: reg, Plans: func(compile.Options, []string) (*engine.Plan, error) { return plan, nil }}
	require.Equal(t, []string{"ok a", `t.yaml:8:37: RuleTest t, row "b": scope box has no fact to give called "box"; known: now`}, shown(runner.Run(lib.Tests)))
}

func TestPointNamesDoNotClashWithTables(t *testing.T) {
	add := func(p *registry.Point) func() { return func() { shop().AddPoint(p) } }
	require.PanicsWithValue(t, "engine: point a: test tables use the name fired for something else",
		add(&registry.Point{Name: "a", Vars: []registry.Var{{Name: "fired", Type: lang.Int}}}))
	require.PanicsWithValue(t, "engine: point a: test tables use the name notes for something else",
		add(&registry.Point{Name: "a", Scopes: []registry.Scope{{Name: "box", Vars: []registry.Var{{Name: "notes", Type: lang.Int}}}}}))
	require.PanicsWithValue(t, "engine: point a: a scope and a variable are both called box",
		add(&registry.Point{Name: "a", Vars: []registry.Var{{Name: "box", Type: lang.Int}}, Scopes: []registry.Scope{{Name: "box"}}}))
}
