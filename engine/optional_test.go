package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// withOptionals are expressions that must have code, checked against CEL.
var withOptionals = []string{
	// Every type, set or not.
	"r.?i", "r.?d", "r.?b", "r.?s", "r.?l", "r.?n", "r.?i.orValue(x)", "r.?d.orValue(y)", "r.?b.orValue(q.b)", "r.?s.orValue(t)", "r.?l.orValue(q.l)", "r.?l.orValue([])", "r.?n.orValue(q.n)",
	"now.?i.orValue(0)", "now.?d.orValue(0.5)", "now.?b.orValue(true)", "now.?s.orValue('a')", "r.?i.value()", "r.?d.value()", "r.?b.value()", "r.?s.value()", "r.?l.value()", "r.?n.value()",
	"r.?i.hasValue()", "now.?n.hasValue()", "r[?'i']", "r[?'n'][?'i'].orValue(3)", "r[?'n'].s", "r.?i == q.?i", "[r.?i, q.?i]", "[r.?i, q.?i].filter(o, o.hasValue()).map(o, o.value())",

	// An unset record has no values, whichever way it is reached.
	"r.n.?i", "r.?n.i", "r.?n.?i", "r.?n.?l", "r.?n.i.orValue(7)", "r.n.?s.orValue(t)", "now.?n.d.orValue(1.5)", "r.?n.i.hasValue()", "r.?n.l.hasValue()", "r.?n.value().i", "r.?n.orValue(q.n).i", "r.?n.orValue(q.n).?i.orValue(1)",
	"q.?n.hasValue() && q.?n.b.orValue(true)", "r.?n == q.?n",

	// Several sources; later ones are only read if needed.
	"r.?i.or(q.?i)", "r.?i.or(q.?i).or(now.?n.i).orValue(x)", "r.?i.or(q.?n.i).hasValue()", "r.?n.or(q.?n).i", "r.?n.or(q.?n).?s.orValue(t)", "r.?n.or(q.?n).d.hasValue()", "(r.b ? r.?n : q.?n).?i.orValue(5)", "(r.b ? r.?i : q.?i).orValue(5)",
	"(r.b ? r.?i : q.?i).hasValue()", "(r.b ? r : q).?i.orValue(5)", "(r.b ? r : q).?n.i.or(now.?i).value()", "(r.b ? r.?i : q.?i).or(now.?i).value()", "r.?i.orValue(x / 0)", "r.?s.orValue(now.s)", "r.?i.or(rs[9].?i).orValue(0)",
	"r.?i.orValue(q.i) + now.?i.orValue(1 / x)", "x > 0 || r.?i.orValue(1 / 0) > 0", "r.?b.orValue(now.b) && q.?b.orValue(false)", "r.?i.orValue(9223372036854775807) + 1", "r.n.?i.or(r.?n.i).value() > 0 || true",

	// List elements.
	"is[?0]", "is[?x].orValue(x)", "is[?-1].hasValue()", "is[?r.i].or(is[?0]).orValue(9)", "ds[?0].orValue(y)", "bs[?1].orValue(r.b)", "r.l[?0].orValue(t)", "rs[?0].?i.orValue(x)", "rs[?0].?n.i", "rs[?x].n.i.orValue(2)", "rs[?0].orValue(r).i",
	"rs[?0].value().i", "rs.filter(c, c.b)[?0].?i.orValue(0)", "[x, 2][?5]", "[1, 2][?1].orValue(0)", "is[?1 / x]", "rs[?0].?n.or(r.?n).d.orValue(0.0)", "rs.map(c, c.l)[?0].orValue([])",

	// In loops, lists and variables.
	"rs.exists(c, c.?i.orValue(0) > 1)", "rs.map(c, c.?n.i.orValue(c.?i.orValue(-1)))", "sum(rs.map(c, c.?i.orValue(0)))", "rs.filter(c, c.?i.hasValue()).map(c, c.i)", "rs.map(c, c.?i)", "rs.map(c, c.?i).map(o, o.orValue(1))", "rs.map(c, c.?n).filter(n, n.i.hasValue()).map(n, n.i.value())",
	"rs.all(c, c.?s.orValue(t) in r.?l.orValue([]))", "is.map(k, is[?k].orValue(k))", "r.?i in [q.?i, now.?i]", "vo", "vo.orValue(2)", "vo.hasValue()", "vn.i", "vn.?i.orValue(3)", "vn.or(r.?n).s", "ve.orValue(1)", "ve.or(vo).orValue(0)", "vi[?0].orValue(0)",

	// Constants.
	"params.?i.orValue(5)", "params.?missing.orValue(5)", "params.?missing.or(params.?i).value()", "params.?missing.value()", "params.?missing.hasValue()", "params.?i.or(r.?i)", "r.?i.or(params.?i).orValue(x)", "r.?i.or(params.?missing).orValue(x)", "gates.?Vouchers.orValue(true)",

	// Membership in records.
	"'i' in r", "'n' in now", "'i' in r.n", "'d' in now.n", "'missing' in params", "'i' in params", "'Vouchers' in gates", "('i' in r ? r.i : 0) + 1", "'i' in rs[0]", "'n' in (r.b ? r : q)", "rs.filter(c, 'i' in c)", "rs.exists(c, 'd' in c.n)", "'i' in vt[0]", "!('s' in r) || r.s == t",
}

func TestOptionalsMatchCEL(t *testing.T) { holdAgainstCEL(t, withOptionals) }

func TestInRecordMatchesHas(t *testing.T) {
	stageWith(t, "0") // declares the point
	for _, facts := range []*registry.Facts{threeRecords(), (&generator{data: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}).facts()} {
		facts.ByScope()[0][0].Set("now", outerSchema.New().SetBool("b", true)).Set("q", outerSchema.New())
		for in, has := range map[string]string{"'i' in r": "has(r.i)", "'b' in now": "has(now.b)", "'n' in now": "has(now.n)", "'i' in now.n": "has(now.n.i)", "rs.map(c, 'i' in c.n)": "rs.map(c, has(c.n.i))"} {
			f := &closure.Frame{}
			require.Equal(t, assembled(stageWith(t, has), false).on(f, facts), assembled(stageWith(t, in), false).on(f, facts), in)
		}
	}
}

func TestOptionalsOfUnsetFields(t *testing.T) {
	stageWith(t, "0") // declares the point
	empty := func() *registry.Facts {
		facts := mixedPoint.NewFacts().Set("r", outerSchema.New()).Set("x", lang.Number(1))
		facts.AddItem("one", "first").Set("now", outerSchema.New().SetRecord("n", innerSchema.New())).Set("q", outerSchema.New().SetInt("i", 4))
		return facts
	}
	for expression, want := range map[string]string{
		"r.?i.orValue(7)":                    "int 7",
		"q.?i.orValue(7)":                    "int 4",
		"r.?n.hasValue()":                    "bool false", // an unset record has no value
		"now.?n.hasValue()":                  "bool true",  // an empty one does
		"r.?n.i.orValue(7)":                  "int 7",
		"r.n.?i.orValue(7)":                  "int 7",
		"now.?n.?i.hasValue()":               "bool false",
		"r.?n.orValue(q.n) == q.n":           "bool true",
		"r.?i.or(now.?n.i).or(q.?i).value()": "int 4",
		"r.?i.value()":                       "failure: optional.none() dereference",
		"rs[?0].hasValue()":                  "failure: no such attribute(s): rs", // a missing fact is a failure
		"'i' in q && !('i' in r)":            "bool true",
		"r.i":                                "failure: i is not set; guard it with has(), or give a default: .?i.orValue(…)",
	} {
		for name, interpret := range map[string]bool{"code": false, "CEL": true} {
			require.Equal(t, want, assembled(stageWith(t, expression), interpret).on(&closure.Frame{}, empty()), "%s, %s", expression, name)
		}
	}
}

func TestOptionalsDoNotAllocate(t *testing.T) {
	stageWith(t, "0") // declares the point
	facts := threeRecords()
	facts.ByScope()[0][0].Set("now", outerSchema.New().SetInt("i", 1)).Set("q", outerSchema.New())
	for _, expression := range []string{
		"now.?i.orValue(0)", "now.?n.i.orValue(x)", "r.?i.or(q.?i).or(now.?i).orValue(0)", "q.?n.hasValue()", "r.?d.orValue(0.5) > 0.0", "r.?s.orValue(t) == t", "r.?n.orValue(q.n).?i.orValue(3)", "now.?i.value()",
		"rs.exists(c, c.?i.orValue(5) > 9)", "'i' in now", "params.?i.orValue(3) == x", "vo.orValue(0)", "vn.i.orValue(1)", "vn.d.hasValue()", "size(r.?l.orValue([])) == 3", "now.?b.orValue(true)",
	} {
		e, f := assembled(stageWith(t, expression), false), &closure.Frame{}
		e.on(f, facts)
		require.Zero(t, testing.AllocsPerRun(10, func() { e.run(f) }), expression)
		require.NoError(t, f.Failure(), expression)
	}
}

func TestConstantOptionalsAreFolded(t *testing.T) {
	for _, expression := range []string{"params.?i.orValue(5) == 1 && !params.?missing.hasValue() && 'i' in params", "[1, 2][?1].orValue(0)"} {
		set := stageWith(t, expression)
		vars := set.Stages[0].Vars
		a := engine.AssemblerOf(set, vars, false)
		a.Namespace()
		n, ok := a.Closure(vars.Programs[vars.Slots["v"].Index])
		require.True(t, ok && n.Known, expression)
	}
}

func TestUnsupportedOptionalsAreRefused(t *testing.T) {
	tests := []struct{ expression, want string }{
		{"now.?prize.hasValue()", "s.yaml:11:34: RuleSet s@1.0.0, stage st, rule r, when: undefined field 'prize'; Line has price, before, weight"},
		{"customer.?discount.prize.hasValue()", "s.yaml:11:49: RuleSet s@1.0.0, stage st, rule r, when: undefined field 'prize'; Line has price, before, weight"},
		{"'prize' in now", "s.yaml:11:31: RuleSet s@1.0.0, stage st, rule r, when: Line has no field \"prize\"; it has price, before, weight"},
		{"item in now", "s.yaml:11:31: RuleSet s@1.0.0, stage st, rule r, when: what is looked for in Line must be the name of a field, written out; it has price, before, weight"},
		{"'most' in params && 'least' in params", "params/s has no field \"least\"; it has most"},
		{"1 in now", "operator in does not take (int, Line)"},
		{"now[?item].hasValue()", "operator [?] does not take (Line, string); fields of a record are named, as in x.?field"},
		{"now.?price > 5", "operator > does not take (optional_type(int), int); an optional may hold no value: add .orValue(…)"},
		{"now.?price.orValue('x') == 'x'", "found no matching overload for 'orValue'"},
		{"now.?price.optMap(v, v + 1).hasValue()", "s.yaml:11:34: RuleSet s@1.0.0, stage st, rule r, when: there is no optMap; write x.hasValue() ? … x.value() … : …, with a variable for x"},
		{"now.?price.optFlatMap(v, now.?before).hasValue()", "there is no optFlatMap; write x.hasValue() ?"},
		{"has(customer.?discount.price)", "RuleSet s@1.0.0, stage st, rule r, when: has() does not look behind .?; write ….?price.hasValue()"},
		{"optional.of(1).hasValue()", "s.yaml:11:31: RuleSet s@1.0.0, stage st, rule r, when: there is no optional.of; optional values come of .?field and of [?index]"},
		{"optional.none().hasValue()", "there is no optional.none; optional values come of .?field and of [?index]"},
		{"now.?price.orValue(now.weight) > 0", "cents meets grams here: they are counted in different units"},
		{"now.?price.or(now.?weight).hasValue()", "cents meets grams here"},
		{"limit.orValue(now.weight) > 0", "cents meets grams here"},
		{"now.?price.value() > now.weight", "cents meets grams here"},
		{"customer.?discount.price.orValue(0) > now.weight", "cents meets grams here"},
		{"customer[?'discount'].or(customer.?discount).weight.orValue(0) > now.price", "grams meets cents here"},
	}
	for _, tt := range tests {
		t.Run(tt.expression, func(t *testing.T) {
			_, err := compileOne("order.adjust", `
  params: [{name: most, type: cents}]
  stages:
  - {name: st, each: line, variables: {limit: "customer.?discount.price"}, rules: [
    {name: r, note: n, when: "`+tt.expression+`"}]}
`, compile.Options{})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestOptionalsKeepUnitsAndFindings(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  params: [{name: most, type: cents}, {name: least, type: cents}, {name: idle, type: cents}]
  stages:
  - name: st
    each: line
    variables: {limit: "params.?most.or(customer.?discount.price)"}
    rules:
    - {name: a, when: "'least' in params", set: {now.price: "limit.orValue(cents('5')) + limit.orValue(params.least)"}}
    - {name: b, set: {now.price: "now.?before.orValue(7)"}}
    - {name: c, set: {now.price: "now.?before.orValue(0)"}}
`, compile.Options{})
	var got []string
	for _, f := range plan.Findings() {
		got = append(got, f.Message)
	}
	require.Equal(t, []string{"param idle is never read", "7 counts cents here; write cents('7c')"}, got)
}

// In a stage of an axis, the axis name works as the optional field.
func TestOptionalsOfAnAxis(t *testing.T) {
	r := shop()
	r.AddAxis(lang.Axis{Name: "sum", Plural: "sums", Values: []string{"price", "before"}, Doc: "what a line costs"})
	plan, err := compileAt(r, "order.adjust", `
  params:
  - {name: most.price, type: cents, default: "90"}
  - {name: most.before, type: cents}
  stages:
  - name: cap
    each: [line, sum]
    rules:
    - {name: fill, when: "!(sum in now)", set: {"now[sum]": "customer.discount[?sum].orValue(cents('7'))"}}
    - {name: cap, when: "sum in params.most", set: {"now[sum]": "min(now[sum], params.most[?sum].value())"}}
`, compile.Options{})
	require.NoError(t, err)
	for name, p := range map[string]*engine.Plan{"code": plan, "CEL": plan.Interpreted()} {
		f := order(100).Set("customer", customerSchema.New())
		require.Empty(t, p.RunStages("order.adjust", f, nil), name)
		require.Equal(t, "[int 90 int 7 unset]", show(line(f, 0)), name)
	}
}
