package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Cases that FuzzClosuresEqualCEL finds by chance, or has found.
func TestExpressionsMatchCEL(t *testing.T) {
	tests := []struct{ expression, want string }{
		{"false && now.i > 0", "false"},
		{"now.i > 0 && false", "false"},
		{"now.i > 0 && true", "when: i is not set; guard it with has(), or give a default: .?i.orValue(…)"},
		{"true || gone > 0", "true"},
		{"gone > 0 || true", "true"},
		{"gone > 0 || false", "when: no such attribute(s): gone"},
		{"now.i > 0 || gone > 0", "when: i is not set; guard it with has(), or give a default: .?i.orValue(…)"},
		{"now.i > 0 || gone > 0 || x == 1", "true"},
		{"x == 1 ? true : now.b", "true"},
		{"x == 2 ? true : now.b", "when: b is not set; guard it with has(), or give a default: .?b.orValue(…)"},
		{"x + 9223372036854775807 > 0", "when: integer overflow"},
		{"x - 2 - 9223372036854775807 < 0", "true"},
		{"x - 3 - 9223372036854775807 < 0", "when: integer overflow"},
		{"-1 * x * -9223372036854775808 > 0", "when: integer overflow"},
		{"-(x - 2 - 9223372036854775807) > 0", "when: integer overflow"},
		{"x / (x - 1) == 1", "when: division by zero"},
		{"x % (x - 1) == 1", "when: modulus by zero"},
		{"(x - 2 - 9223372036854775807) / -x > 0", "when: integer overflow"},
		{"1.0 / 0.0 > y", "true"},
		{"y - y == 0.0", "true"},
		{"0.0 / 0.0 == 0.0 / 0.0", "false"},
		{"0.0 / 0.0 != y", "true"},
		{"0.0 / 0.0 < y", "when: NaN values cannot be ordered"},
		{"int(y * 1e300) > 0", "when: integer overflow"},
		{"int(y) == 1 && string(y) == '1.5' && double(x) == 1.0", "true"},
		{"int(t) == 1", "when: type conversion error from 'string' to 'int'"},
		{"t in ['a', 'label'] && !(t in r.l)", "true"},
		{"now.s in []", "false"},
		{"[r.?n][0].i.orValue(7) == 7", "when: there is no key i; ask 'i' in …, or give a default: …[?'i'].orValue(…)"},
		{"[r.?n][?0].orValue(r.?n).i.orValue(7) == 7", "true"},
		{"x in [2, 1.0] && x in [1.0, 'a'] && !(x in [2, 1.5])", "true"},
		{"t in ['label', 1] && dyn(x) in [1.0] && !(t in [1, 'a'])", "true"},
		{"size(t) == 5 && t.size() == 5 && size(r.l) == 2 && r.l.size() == 2", "true"},
		{"params.s == 'like its rule set'", "true"},
		{"has(now.n.i) || has(r.n.i)", "false"},
		{"r == q", "false"},
		{"t.contains('abe') && t.startsWith('la') && t.endsWith('el')", "true"},
		{"t.contains('x') || t.startsWith('abel') || t.endsWith('lab')", "false"},
		{"t.contains(now.s)", "when: s is not set; guard it with has(), or give a default: .?s.orValue(…)"},
		{"(r.l + ['c'] + r.l)[2] == 'c' && [1] + [2] == [1, 2] && r.l + [] == r.l", "true"},
		{"(x == 1 ? r : q).l == r.l", "true"},
		{"ceilTo(x, 0) == 0", "when: the step must be greater than zero"},
		{"mulDivFloor(now.i, gone, 0) > 0", "when: i is not set; guard it with has(), or give a default: .?i.orValue(…)"},
	}
	for _, tt := range tests {
		t.Run(tt.expression, func(t *testing.T) {
			plan, err := compileMixed(`
  params: [{name: s, type: string, default: like its rule set}]
  stages: [{name: st, each: one, rules: [{name: r, when: "` + tt.expression + `", set: {now.d: "7.0"}}]}]
`)
			require.NoError(t, err)
			for name, p := range map[string]*engine.Plan{"code": plan, "CEL": plan.Interpreted()} {
				f := mixedPoint.NewFacts().Set("r", outerSchema.New().Put("l", lang.ListFrom([]string{"a", "b"}))).Set("x", lang.Number(1)).Set("y", types.Double(1.5))
				now := outerSchema.New()
				f.AddItem("one", "label").Set("t", lang.Text("label")).Set("q", outerSchema.New().SetInt("i", 1)).Set("now", now)
				failed := p.RunStages("mixed", f, nil)
				got := fmt.Sprint(now.Double("d") == 7)
				if len(failed) > 0 {
					got = failed[0].Err.Error()
				}
				require.Equal(t, tt.want, got, name)
			}
		})
	}
}

// Falling back to CEL is slow, so common constructs must have code.
func TestCommonConstructsHaveCode(t *testing.T) {
	for _, expression := range []string{
		"has(r.n.i) && r.n.i > 0 && now.i > r.n.i", "t == 'a' || t != 'b'", "!('cpu' in r.l)", "t in ['a', 'b']",
		"has(r.i) ? r.i > x : params.i < x", "min(double(x) / y, 1.0) >= pow(y, -2.0)", "gates.Vouchers || (r.b && size(r.l) == 0)",
		"cents('12c') == ceilTo(x, 5)", "'a' + t == string(x)", "t.contains('a') || t.startsWith(r.s) || t.endsWith('b')", "size(r.l + ['a']) > size(is + [1])",
		"r.?i.orValue(5) > r.?n.i.orValue(x) && r.?n.hasValue() || now.?i.or(r[?'i']).orValue(0) > 0", "'i' in r && 'd' in r.n && !('missing' in params)",
		"(x > 0 ? r.?n : q.?n).?i.or(rs[?0].?i).value() > params.?i.orValue(7)", "rs.exists(c, c.?n.s.orValue(t) == t)", "size(r.?l.orValue([])) == 0 && r.?n.orValue(q.n).b", "-x < -1 && -y < -1.0", "r == q",
	} {
		plan, err := compileMixed("\n  params: [{name: i, type: int, default: \"1\"}, {name: missing, type: int}]\n  stages: [{name: st, each: one, rules: [{name: r, when: \"" + expression + "\", note: n}]}]\n")
		require.NoError(t, err)
		set := plan.Parts().Points["mixed"].Sets[0]
		p := set.Stages[0].Rules[0].When
		_, ok := engine.AssemblerOf(set, set.Stages[0].Vars, false).Closure(p)
		require.True(t, ok, expression)
	}
}

func TestPanickingFunctionFailsOnlyItsRule(t *testing.T) {
	r := shop()
	r.AddPoint(mixedPoint)
	r.AddFunction("explode", registry.NoUnit, "panics", registry.Func1(func(n int64) int64 { panic("boom") }))
	plan, err := compileAt(r, "mixed", `
  stages:
  - name: st
    each: one
    variables: {v: explode(x)}
    rules:
    - {name: first, set: {now.i: v}}
    - {name: second, when: explode(x) > 0 || true, set: {now.d: "2.0"}}
    - {name: third, set: {now.i: "size(r.l.map(e, explode(x)))"}}
`, compile.Options{})
	require.NoError(t, err)
	for range 3 {
		f := (&generator{data: []byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}).facts().Set("x", lang.Number(1))
		failed := plan.RunStages("mixed", f, nil)
		require.Len(t, failed, 4)
		require.ErrorContains(t, failed[0], "set now.i: internal error: boom")
		require.Equal(t, 2.0, f.ByScope()[0][0].Record("now").Double("d"))
	}
}

func TestSetCopiesRecords(t *testing.T) {
	plan, err := compileMixed("\n  stages: [{name: st, each: one, rules: [{name: copy, set: {now.n: r.n}}, {name: change, set: {now.n.i: '5'}}]}]\n")
	require.NoError(t, err)
	for name, p := range map[string]*engine.Plan{"code": plan, "CEL": plan.Interpreted()} {
		f := mixedPoint.NewFacts().Set("r", outerSchema.New())
		now := outerSchema.New()
		f.AddItem("one", "x").Set("now", now)
		require.Empty(t, p.RunStages("mixed", f, nil), name)
		require.Equal(t, "[[int 5 unset unset unset unset] unset unset unset unset unset]", show(now), name)
		require.True(t, innerSchema.Empty().Same(innerSchema.New()), "%s: the empty record is shared and must stay empty", name)
	}
	inner := innerSchema.New().SetInt("i", 1)
	f := mixedPoint.NewFacts().Set("r", outerSchema.New().SetRecord("n", inner))
	f.AddItem("one", "x").Set("now", outerSchema.New())
	plan.RunStages("mixed", f, nil)
	i, _ := inner.Int("i")
	require.EqualValues(t, 1, i, "rules cannot change a fact that is not writable")
}

const folding = `
  params: [{name: most, type: cents}, {name: on, type: bool, default: "true"}]
  stages:
  - name: cap
    each: line
    when: params.on && item != ''
    variables: {gold: "has(customer.tier) && customer.tier == 'gold'", discount: "has(customer.discount.price) ? customer.discount.price : 0"}
    rules:
    - {name: most, when: has(params.most) && now.price > params.most, set: {now.price: params.most}}
    - {name: gold, when: gold && discount > 0, set: {now.price: now.price - discount}}
    - {name: fails, when: customer.discount.weight > 0, set: {now.price: "0"}}
    - {name: gate, when: gates.Vouchers, set: {now.price: "0"}}
`

func TestRulesThatCannotFireAreDropped(t *testing.T) {
	plan := mustCompile(t, "order.adjust", folding, compile.Options{})
	rules := func(p *engine.Plan) []string { return engine.RulesThatCanFire(p, "order.adjust") }
	require.Equal(t, []string{"gold", "fails"}, rules(plan), "params and gates are always known")
	require.Equal(t, []string{"s@1.0.0"}, plan.RuleSets("order.adjust"))

	table := mustCompile(t, "order.ship", "\n  decisions: [{name: a, when: gates.Vouchers, do: Ask}, {name: b, when: customer.tier == 'x', do: Ask}, {name: c, when: '!gates.Vouchers', do: Ship}, {name: d, do: Hold}]\n", compile.Options{})
	require.Equal(t, 2, engine.RowsThatCanDecide(table, "order.ship"))
	require.Equal(t, "Ship", table.Decide("order.ship", shipment("gold"), nil).Do)
}

func TestFunctionsAreListed(t *testing.T) {
	var got []string
	for _, f := range shop().Functions() {
		require.NotEmpty(t, f.Doc)
		got = append(got, f.Signatures()...)
	}
	require.Equal(t, "add(int, int) -> int, atMost(int, int) -> int, ceilTo(int, int) -> int, cents(string) -> int, clamp(int, int, int) -> int, floorTo(int, int) -> int, "+
		"max(int, int) -> int, max(double, double) -> double, min(int, int) -> int, min(double, double) -> double, "+
		"mulDivCeil(int, int, int) -> int, mulDivFloor(int, int, int) -> int, pow(double, double) -> double, sum(list(int)) -> int, voucher(Vouchers, string) -> int", strings.Join(got, ", "))
}

func TestTracesOfSeveralRunsAreMerged(t *testing.T) {
	plan := mustCompile(t, "order.adjust", "\n  stages: [{name: a, each: line, rules: [{name: r, when: now.price > 1, set: {now.price: now.price - 1}, note: less}]}, {name: b, rules: [{name: n, note: done}]}]\n", compile.Options{})
	trace := &engine.Trace{}
	plan.RunStages("order.adjust", order(1, 5), trace)
	plan.RunStages("order.adjust", order(9), trace)
	text, err := json.Marshal(trace)
	require.NoError(t, err)
	var got struct{ Steps []engine.Step }
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, trace.Steps(), got.Steps)
	var steps []string
	for _, s := range got.Steps {
		steps = append(steps, s.Rule+" "+s.Item+" "+s.From+" "+s.To+" "+s.Reason)
	}
	require.Equal(t, []string{"r line-1 5c 4c less", "n    done", "r line-0 9c 8c less", "n    done"}, steps)
	last, ok := trace.Last("line-0", "now.price")
	require.True(t, ok)
	require.Equal(t, "8c", last.To)
	require.Nil(t, (*engine.Trace)(nil).Steps())
}
