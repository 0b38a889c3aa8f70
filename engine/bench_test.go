package engine_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
)

// pricing is a typical rule set: a scope, variables, conditions, arithmetic and caps.
const pricing = `
  params: [{name: most, type: cents, default: "900"}, {name: least, type: cents}, {name: rate, type: int, default: "95"}]
  stages:
  - name: discount
    each: line
    variables: {gold: "has(customer.tier) && customer.tier == 'gold'"}
    rules:
    - {name: gold, when: gold, set: {now.before: now.price, now.price: "mulDivFloor(now.price, params.rate, 100)"}}
    - {name: personal, when: has(customer.discount.price) && now.price > customer.discount.price, set: {now.price: now.price - customer.discount.price}}
  - name: caps
    each: line
    when: item != 'gift'
    rules:
    - {name: most, when: has(params.most) && now.price > params.most, set: {now.price: params.most}}
    - {name: least, when: has(params.least) && now.price < params.least, set: {now.price: params.least}}
    - {name: round, set: {now.price: "ceilTo(now.price, 5)"}}
`

// BenchmarkFourItems prices four lines from the same start in each run.
func BenchmarkFourItems(b *testing.B) {
	plan := mustCompile(b, "order.adjust", pricing, compile.Options{})
	customer := customerSchema.New().SetString("tier", "gold").SetRecord("discount", lineSchema.New().SetInt("price", 7))
	prices := [4]int64{100, 990, 5000, 12}
	run := func(plan *engine.Plan, traced bool) func(*testing.B) {
		return func(b *testing.B) {
			f := order(prices[:]...).Set("customer", customer)
			b.ReportAllocs()
			for b.Loop() {
				for i, p := range prices {
					line(f, i).SetInt("price", p)
				}
				var trace *engine.Trace
				if traced {
					trace = &engine.Trace{}
				}
				plan.RunStages("order.adjust", f, trace)
			}
			require.EqualValues(b, 90, price(b, line(f, 0)))
		}
	}
	b.Run("rules", run(plan, false))
	b.Run("rules-traced", run(plan, true))
	b.Run("rules-by-cel", run(plan.Interpreted(), false))
	b.Run("plain-go", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now := prices
			for i := range now {
				v := now[i] * 95 / 100
				if v > 7 {
					v -= 7
				}
				now[i] = (min(v, 900) + 4) / 5 * 5
			}
			plain = now
		}
		require.EqualValues(b, 90, plain[0])
	})
}

var plain [4]int64

func BenchmarkDecide(b *testing.B) {
	plan := mustCompile(b, "order.ship", "\n  decisions:\n  - {name: new, when: \"!has(customer.tier)\", do: Hold}\n"+
		"  - {name: vouchers, when: gates.Vouchers, do: Hold}\n  - {name: gold, when: customer.tier == 'gold', do: Ship}\n", compile.Options{})
	f := shipment("gold")
	b.ReportAllocs()
	for b.Loop() {
		plan.Decide("order.ship", f, nil)
	}
}

func BenchmarkLoadAndCompile(b *testing.B) {
	files := fstest.MapFS{
		"s.yaml": {Data: []byte(ruleSet("order.adjust", pricing))},
		"p.yaml": {Data: []byte(strings.Replace(onePipeline, "order.adjust: []", "order.adjust: [s@1.0.0]", 1))},
	}
	b.ReportAllocs()
	for b.Loop() {
		lib, err := document.Loader{}.Load(document.Layer{FS: files})
		require.NoError(b, err)
		_, err = compile.Compile(lib, shop(), compile.Options{Pipeline: "p"})
		require.NoError(b, err)
	}
}

func BenchmarkOverThree(b *testing.B) {
	stageWith(b, "0") // declares the point
	facts := threeRecords()
	for _, expression := range []string{
		"sum(rs.filter(c, has(c.i)).map(c, c.i))", "sum(rs.map(c, has(c.i) ? c.i : 0))", "rs.exists(c, has(c.n.d))", "rs.all(c, has(c.n.i))", "rs.exists_one(c, c.i == 2)",
		"rs.filter(c, has(c.i))", "rs.map(c, has(c.i) ? c.i : 0)", "r.l.exists(e, e == 'c')", "is.filter(k, k > 1)", "[x, 2][x]", "is[x]", "size(rs.filter(c, has(c.b)))",
	} {
		set := stageWith(b, expression)
		for name, interpret := range map[string]bool{"code": false, "CEL": true} {
			b.Run(expression+"/"+name, func(b *testing.B) {
				e, f := assembled(set, interpret), &closure.Frame{}
				e.on(f, facts)
				b.ReportAllocs()
				for b.Loop() {
					e.run(f)
				}
				require.NoError(b, f.Failure())
			})
		}
	}
}

// BenchmarkOptional compares optionals with the equivalent ternaries and has().
func BenchmarkOptional(b *testing.B) {
	stageWith(b, "0") // declares the point
	facts := threeRecords()
	facts.ByScope()[0][0].Set("now", outerSchema.New().SetInt("i", 1).SetDouble("d", 0.5)).Set("q", outerSchema.New())
	for _, pair := range [][2]string{
		{"has(now.i) ? now.i : 0", "now.?i.orValue(0)"},                           // set
		{"has(q.i) ? q.i : 0", "q.?i.orValue(0)"},                                 // unset
		{"has(now.d) ? now.d : 0.0", "now.?d.orValue(0.0)"},                       // another type
		{"has(r.n.i) ? r.n.i : x", "r.?n.i.orValue(x)"},                           // nested record
		{"has(q.i) ? q.i : has(now.i) ? now.i : 0", "q.?i.or(now.?i).orValue(0)"}, // two places
		{"has(now.i)", "now.?i.hasValue()"},                                       // hasValue
		{"has(now.n.i)", "'i' in now.n"},                                          // in
		{"sum(rs.map(c, has(c.i) ? c.i : 0))", "sum(rs.map(c, c.?i.orValue(0)))"}, // in a loop
	} {
		for _, expression := range pair {
			b.Run(expression, func(b *testing.B) {
				e, f := assembled(stageWith(b, expression), false), &closure.Frame{}
				e.on(f, facts)
				b.ReportAllocs()
				for b.Loop() {
					e.run(f)
				}
				require.NoError(b, f.Failure())
			})
		}
	}
}
